//! Host memory: owned words, or a slice of a mapped file. Cheap to clone and to cut.

use std::ops::Range;
use std::sync::Arc;

use memmap2::{Advice, Mmap, UncheckedAdvice};

use crate::backend::Buffer;
use crate::error;
use crate::error::Result;

/// A read-only run of bytes that several tensors or weights may share.
#[derive(Clone)]
pub struct Bytes {
    memory: Memory,
    range: Range<usize>,
}

#[derive(Clone)]
enum Memory {
    /// Words, so that every view as f32 or u32 is aligned.
    Owned(Arc<Buffer>),
    Mapped(Arc<Mmap>),
}

impl Bytes {
    pub fn from_f32(values: Vec<f32>) -> Self {
        Self::of(Buffer::from(values))
    }

    pub fn from_u32(words: Vec<u32>) -> Self {
        Self::of(Buffer::from(words))
    }

    /// All of a buffer.
    pub fn of(buffer: Buffer) -> Self {
        let range = 0..buffer.len() * 4;
        Bytes {
            memory: Memory::Owned(Arc::new(buffer)),
            range,
        }
    }

    /// Copies `bytes` into owned memory, padded to whole words; `len` stays that of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut words = vec![0u32; bytes.len().div_ceil(4)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        let mut owned = Self::from_u32(words);
        owned.range.end = bytes.len();
        owned
    }

    /// All of a mapped file.
    pub fn mapped(map: Arc<Mmap>) -> Self {
        let range = 0..map.len();
        Bytes {
            memory: Memory::Mapped(map),
            range,
        }
    }

    /// The part `range` (in bytes, relative to this run); an error when it reaches past the end.
    pub fn slice(&self, range: Range<usize>) -> Result<Self> {
        if range.start > range.end || range.end > self.len() {
            return Err(error!(
                Internal,
                "bytes {}..{} of a run of {}",
                range.start,
                range.end,
                self.len()
            ));
        }
        Ok(Bytes {
            memory: self.memory.clone(),
            range: self.range.start + range.start..self.range.start + range.end,
        })
    }

    pub fn len(&self) -> usize {
        self.range.len()
    }

    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// True when the bytes are pages of a file rather than memory of the process.
    pub fn is_mapped(&self) -> bool {
        matches!(self.memory, Memory::Mapped(_))
    }

    /// Asks the system to read the pages of a file that these bytes lie on, and does not wait for them.
    pub fn fetch_ahead(&self) {
        if let Memory::Mapped(map) = &self.memory {
            // Advice: where it cannot be followed, the pages are read when they are touched.
            let _ = map.advise_range(Advice::WillNeed, self.range.start, self.len());
        }
    }

    /// Gives the pages of a file that these bytes lie on back to the system; they are read again when they are touched.
    /// Memory of the process stays.
    pub fn let_go(&self) {
        if let Memory::Mapped(map) = &self.memory {
            // Safety: the pages of a private mapping that is never written hold what the file holds, before and after.
            let _ = unsafe {
                map.unchecked_advise_range(UncheckedAdvice::DontNeed, self.range.start, self.len())
            };
        }
    }

    pub fn as_u8(&self) -> &[u8] {
        match &self.memory {
            Memory::Owned(words) => &bytemuck::cast_slice(words.words())[self.range.clone()],
            Memory::Mapped(map) => &map[self.range.clone()],
        }
    }

    /// The bytes as f32 values; an error when they are not aligned (only a mapped file can be).
    pub fn as_f32(&self) -> Result<&[f32]> {
        bytemuck::try_cast_slice(self.as_u8())
            .map_err(|cause| error!(Internal, "bytes as f32: {cause}"))
    }

    /// The values for writing, when they are owned and nobody else holds them.
    pub fn f32_mut(&mut self) -> Option<&mut [f32]> {
        match &mut self.memory {
            Memory::Owned(words) => {
                let values: &mut [f32] = Arc::get_mut(words)?;
                values.get_mut(self.range.start / 4..self.range.end / 4)
            }
            Memory::Mapped(_) => None,
        }
    }

    /// The bytes as u32 values, under the same condition.
    pub fn as_u32(&self) -> Result<&[u32]> {
        bytemuck::try_cast_slice(self.as_u8())
            .map_err(|cause| error!(Internal, "bytes as u32: {cause}"))
    }
}
