//! Metadata of a GGUF file: typed values under string keys, in file order.

/// One metadata value with the type it has in the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// The items of an array value, packed by their type: a vocabulary has 256k of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    U8s(Vec<u8>),
    I8s(Vec<i8>),
    U16s(Vec<u16>),
    I16s(Vec<i16>),
    U32s(Vec<u32>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
    Bools(Vec<bool>),
    Strings(Vec<String>),
    Arrays(Vec<Array>),
    U64s(Vec<u64>),
    I64s(Vec<i64>),
    F64s(Vec<f64>),
}

impl Value {
    /// The number of the type in GGUF files.
    pub(super) fn type_id(&self) -> u32 {
        match self {
            Value::U8(_) => 0,
            Value::I8(_) => 1,
            Value::U16(_) => 2,
            Value::I16(_) => 3,
            Value::U32(_) => 4,
            Value::I32(_) => 5,
            Value::F32(_) => 6,
            Value::Bool(_) => 7,
            Value::String(_) => 8,
            Value::Array(_) => 9,
            Value::U64(_) => 10,
            Value::I64(_) => 11,
            Value::F64(_) => 12,
        }
    }
}

impl Array {
    /// The number of the items' type in GGUF files.
    pub(super) fn item_type_id(&self) -> u32 {
        match self {
            Array::U8s(_) => 0,
            Array::I8s(_) => 1,
            Array::U16s(_) => 2,
            Array::I16s(_) => 3,
            Array::U32s(_) => 4,
            Array::I32s(_) => 5,
            Array::F32s(_) => 6,
            Array::Bools(_) => 7,
            Array::Strings(_) => 8,
            Array::Arrays(_) => 9,
            Array::U64s(_) => 10,
            Array::I64s(_) => 11,
            Array::F64s(_) => 12,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Array::U8s(items) => items.len(),
            Array::I8s(items) => items.len(),
            Array::U16s(items) => items.len(),
            Array::I16s(items) => items.len(),
            Array::U32s(items) => items.len(),
            Array::I32s(items) => items.len(),
            Array::F32s(items) => items.len(),
            Array::Bools(items) => items.len(),
            Array::Strings(items) => items.len(),
            Array::Arrays(items) => items.len(),
            Array::U64s(items) => items.len(),
            Array::I64s(items) => items.len(),
            Array::F64s(items) => items.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Keys and values in the order of the file. Files have tens of keys, so look-ups walk the list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
}

impl Metadata {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        let (_, value) = self.entries.iter().find(|(name, _)| name == key)?;
        Some(value)
    }

    /// Replaces the value of `key`, or appends it as the last entry.
    pub fn set(&mut self, key: impl Into<String>, value: Value) {
        let key = key.into();
        match self.entries.iter_mut().find(|(name, _)| *name == key) {
            Some((_, old)) => *old = value,
            None => self.entries.push((key, value)),
        }
    }

    /// Adds an entry whose key the caller knows to be new.
    pub(super) fn append(&mut self, key: String, value: Value) {
        self.entries.push((key, value));
    }

    /// The value of `key` when it is a string.
    pub fn string(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The value of `key` when it is of any integer type and not negative: writers differ in the type they choose.
    pub fn integer(&self, key: &str) -> Option<u64> {
        match *self.get(key)? {
            Value::U8(number) => Some(number.into()),
            Value::U16(number) => Some(number.into()),
            Value::U32(number) => Some(number.into()),
            Value::U64(number) => Some(number),
            Value::I8(number) => number.try_into().ok(),
            Value::I16(number) => number.try_into().ok(),
            Value::I32(number) => number.try_into().ok(),
            Value::I64(number) => number.try_into().ok(),
            _ => None,
        }
    }

    /// The value of `key` when it is f32 or f64.
    pub fn float(&self, key: &str) -> Option<f64> {
        match *self.get(key)? {
            Value::F32(number) => Some(number.into()),
            Value::F64(number) => Some(number),
            _ => None,
        }
    }

    /// The value of `key` when it is a boolean.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        match *self.get(key)? {
            Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    /// The items of `key` when it is an array of strings.
    pub fn strings(&self, key: &str) -> Option<&[String]> {
        match self.get(key)? {
            Value::Array(Array::Strings(items)) => Some(items),
            _ => None,
        }
    }

    /// The items of `key` when it is an array of any integer type whose values all fit i64.
    pub fn integers(&self, key: &str) -> Option<Vec<i64>> {
        let Value::Array(array) = self.get(key)? else {
            return None;
        };
        match array {
            Array::U8s(items) => Some(items.iter().map(|&item| item.into()).collect()),
            Array::U16s(items) => Some(items.iter().map(|&item| item.into()).collect()),
            Array::U32s(items) => Some(items.iter().map(|&item| item.into()).collect()),
            Array::U64s(items) => items.iter().map(|&item| item.try_into().ok()).collect(),
            Array::I8s(items) => Some(items.iter().map(|&item| item.into()).collect()),
            Array::I16s(items) => Some(items.iter().map(|&item| item.into()).collect()),
            Array::I32s(items) => Some(items.iter().map(|&item| item.into()).collect()),
            Array::I64s(items) => Some(items.clone()),
            _ => None,
        }
    }

    /// The items of `key` when it is an array of f32 or f64 (rounded to f32).
    pub fn floats(&self, key: &str) -> Option<Vec<f32>> {
        match self.get(key)? {
            Value::Array(Array::F32s(items)) => Some(items.clone()),
            Value::Array(Array::F64s(items)) => Some(items.iter().map(|&x| x as f32).collect()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_getters_accept_every_width_and_refuse_other_types() {
        let mut metadata = Metadata::new();
        metadata.set("layers", Value::U32(22));
        metadata.set("negative", Value::I32(-1));
        metadata.set("eps", Value::F32(0.5));
        metadata.set("name", Value::String("tiny".into()));
        metadata.set("heads", Value::Array(Array::U64s(vec![4, 2])));
        metadata.set("too_large", Value::Array(Array::U64s(vec![u64::MAX])));
        assert_eq!(metadata.integer("layers"), Some(22));
        assert_eq!(metadata.integer("negative"), None);
        assert_eq!(metadata.integer("eps"), None);
        assert_eq!(metadata.float("eps"), Some(0.5));
        assert_eq!(metadata.string("name"), Some("tiny"));
        assert_eq!(metadata.integers("heads"), Some(vec![4, 2]));
        assert_eq!(metadata.integers("too_large"), None);
        assert_eq!(metadata.strings("heads"), None);
        assert_eq!(metadata.get("absent"), None);
    }

    #[test]
    fn set_replaces_in_place_and_keeps_the_order() {
        let mut metadata = Metadata::new();
        metadata.set("a", Value::U8(1));
        metadata.set("b", Value::Bool(true));
        metadata.set("a", Value::U8(2));
        let entries: Vec<_> = metadata.iter().collect();
        assert_eq!(entries, [("a", &Value::U8(2)), ("b", &Value::Bool(true))]);
    }
}
