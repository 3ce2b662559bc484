//! Reads the little-endian values of a GGUF header. Every length is checked against what is left before it is used.

use std::str;

use super::{Array, Value};
use crate::bail;
use crate::error::Result;
use crate::format::mapping::DAMAGED;

/// Arrays of arrays may be this deep; GGML itself reads one level.
const MAX_DEPTH: usize = 3;

/// The specification's limit for keys. Names of tensors have 63 bytes in GGML, more in some image models.
const MAX_NAME: usize = 65535;

/// A place in a file that moves forward with every read.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(file: &'a [u8]) -> Self {
        Cursor { file, at: 0 }
    }

    /// Bytes from the start of the file.
    pub fn position(&self) -> usize {
        self.at
    }

    fn left(&self) -> usize {
        self.file.len() - self.at
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let left = &self.file[self.at..];
        let Some(bytes) = left.get(..count) else {
            return Err(crate::error!(
                BadModel,
                "the header needs {count} bytes at {}, the file ends {} bytes later",
                self.at,
                left.len()
            )
            .hint(DAMAGED));
        };
        self.at += count;
        Ok(bytes)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.number()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.number()?))
    }

    /// A count of `what`, each of which takes at least `bytes` bytes: more than fit in the rest of the file are refused.
    pub fn count(&mut self, what: &str, bytes: usize) -> Result<usize> {
        let place = self.at;
        let count = self.u64()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.left() / bytes => Ok(count),
            _ => Err(crate::error!(
                BadModel,
                "{count} {what} (at byte {place}) cannot fit in the {} bytes that follow",
                self.left()
            )
            .hint(DAMAGED)),
        }
    }

    /// A string: its length, then UTF-8. Other bytes are refused, not replaced: a changed token would be another token.
    pub fn string(&mut self) -> Result<&'a str> {
        let place = self.at;
        let length = self.count("bytes of text", 1)?;
        let bytes = self.take(length)?;
        match str::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => bail!(BadModel, "the text at byte {place} is not UTF-8"),
        }
    }

    /// A key or tensor name: a string that is not empty and not absurdly long.
    pub fn name(&mut self, what: &str) -> Result<&'a str> {
        let place = self.at;
        let name = self.string()?;
        match name.len() {
            1..=MAX_NAME => Ok(name),
            length => bail!(
                BadModel,
                "{what} (at byte {place}) is {length} bytes long; 1 to {MAX_NAME} are allowed"
            ),
        }
    }

    /// A value of type `kind`.
    pub fn value(&mut self, kind: u32) -> Result<Value> {
        Ok(match kind {
            0 => Value::U8(u8::from_le_bytes(self.number()?)),
            1 => Value::I8(i8::from_le_bytes(self.number()?)),
            2 => Value::U16(u16::from_le_bytes(self.number()?)),
            3 => Value::I16(i16::from_le_bytes(self.number()?)),
            4 => Value::U32(self.u32()?),
            5 => Value::I32(i32::from_le_bytes(self.number()?)),
            6 => Value::F32(f32::from_le_bytes(self.number()?)),
            7 => Value::Bool(truth(self.number::<1>()?[0])?),
            8 => Value::String(self.string()?.to_owned()),
            9 => Value::Array(self.array(1)?),
            10 => Value::U64(self.u64()?),
            11 => Value::I64(i64::from_le_bytes(self.number()?)),
            12 => Value::F64(f64::from_le_bytes(self.number()?)),
            _ => bail!(BadModel, "value type {kind} does not exist"),
        })
    }

    fn array(&mut self, depth: usize) -> Result<Array> {
        let kind = self.u32()?;
        Ok(match kind {
            0 => Array::U8s(self.numbers(u8::from_le_bytes)?),
            1 => Array::I8s(self.numbers(i8::from_le_bytes)?),
            2 => Array::U16s(self.numbers(u16::from_le_bytes)?),
            3 => Array::I16s(self.numbers(i16::from_le_bytes)?),
            4 => Array::U32s(self.numbers(u32::from_le_bytes)?),
            5 => Array::I32s(self.numbers(i32::from_le_bytes)?),
            6 => Array::F32s(self.numbers(f32::from_le_bytes)?),
            7 => {
                let count = self.count("items", 1)?;
                let bytes = self.take(count)?;
                Array::Bools(
                    bytes
                        .iter()
                        .map(|&byte| truth(byte))
                        .collect::<Result<_>>()?,
                )
            }
            8 => Array::Strings(self.items(8, |cursor| Ok(cursor.string()?.to_owned()))?),
            9 if depth < MAX_DEPTH => {
                // An array is at least its type and its count.
                Array::Arrays(self.items(12, |cursor| cursor.array(depth + 1))?)
            }
            9 => bail!(BadModel, "arrays are nested more than {MAX_DEPTH} deep"),
            10 => Array::U64s(self.numbers(u64::from_le_bytes)?),
            11 => Array::I64s(self.numbers(i64::from_le_bytes)?),
            12 => Array::F64s(self.numbers(f64::from_le_bytes)?),
            _ => bail!(BadModel, "array item type {kind} does not exist"),
        })
    }

    fn numbers<T, const N: usize>(&mut self, item: fn([u8; N]) -> T) -> Result<Vec<T>> {
        let count = self.count("items", N)?;
        let (items, _) = self.take(count * N)?.as_chunks();
        Ok(items.iter().copied().map(item).collect())
    }

    /// Items of varying length, at least `bytes` each in the file.
    fn items<T>(
        &mut self,
        bytes: usize,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.count("items", bytes)?;
        // In memory an item may be larger than the least it takes in the file; a false count must not reserve that.
        let mut items = Vec::with_capacity(count.min(self.left() / size_of::<T>()));
        for _ in 0..count {
            items.push(item(self)?);
        }
        items.shrink_to_fit();
        Ok(items)
    }
}

fn truth(byte: u8) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => bail!(BadModel, "a boolean is {byte}; 0 and 1 are allowed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_beyond_the_end_are_refused_before_anything_is_reserved() {
        let huge = u64::MAX.to_le_bytes();
        let text = Cursor::new(&huge).string().unwrap_err().message;
        assert_eq!(
            text,
            "18446744073709551615 bytes of text (at byte 0) cannot fit in the 0 bytes that follow"
        );
        for kind in 0..13u32 {
            let mut array = kind.to_le_bytes().to_vec();
            array.extend(huge);
            assert!(Cursor::new(&array).value(9).is_err(), "type {kind}");
        }
    }

    #[test]
    fn arrays_nest_three_deep_and_no_deeper() {
        let nested = |depth: usize| {
            let mut bytes = Vec::new();
            for _ in 1..depth {
                bytes.extend(9u32.to_le_bytes());
                bytes.extend(1u64.to_le_bytes());
            }
            bytes.extend(0u32.to_le_bytes());
            bytes.extend(0u64.to_le_bytes());
            Cursor::new(&bytes).value(9)
        };
        let Ok(Value::Array(Array::Arrays(outer))) = nested(3) else {
            panic!("three levels are read");
        };
        assert_eq!(outer, [Array::Arrays(vec![Array::U8s(vec![])])]);
        assert!(nested(4).is_err());
    }

    #[test]
    fn text_must_be_utf8_and_booleans_zero_or_one() {
        let mut text = 1u64.to_le_bytes().to_vec();
        text.push(0xff);
        let message = Cursor::new(&text).string().unwrap_err().message;
        assert_eq!(message, "the text at byte 0 is not UTF-8");
        assert!(Cursor::new(&[2]).value(7).is_err());
    }
}
