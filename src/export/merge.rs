//! A base model with an adapter merged into it, written block of rows by block of rows: the model is never in memory.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error;
use crate::error::{Error, Result};
use crate::format::adapter::SavedAdapter;
use crate::format::gguf::{self, Metadata, Value};
use crate::format::{Entry, atomic, safetensors};
use crate::lora::{Merge, Pair};
use crate::quant::{Format, Weight};

/// Values that are unpacked, merged and packed at once.
const BLOCK_VALUES: usize = 1 << 18;

/// `general.file_type` of GGUF files whose weights are mostly of one format. Source: llama.cpp, `enum llama_ftype`.
const FILE_TYPES: [(Format, u32); 5] = [
    (Format::F32, 0),
    (Format::F16, 1),
    (Format::Q4_0, 2),
    (Format::Q8_0, 7),
    (Format::BF16, 32),
];

/// One tensor of the merged model.
pub struct Piece<'a> {
    /// Its name in the file, and the format it is written in.
    pub entry: Entry,
    weight: Weight,
    /// The path of its layer, its adapter and the scale of that.
    adapter: Option<(String, &'a Pair, f32)>,
}

impl<'a> Piece<'a> {
    /// The tensor `name` of a file, called `path`.weight in the Hugging Face checkpoint, in `format` or, where it cannot be
    /// in that, the nearest that can.
    ///
    /// `format` none keeps the tensor's own; where rows are no whole blocks of `format` it is Q8_0, and F16 where they are
    /// none of that either.
    pub fn new(
        name: &str,
        path: Option<&str>,
        weight: Weight,
        format: Option<Format>,
        adapter: &'a SavedAdapter,
    ) -> Piece<'a> {
        let pair = path.and_then(|path| {
            let pair = adapter.pairs.get(path)?;
            Some((path.to_owned(), pair, adapter.config.scale_of(path)))
        });
        // Norms and biases are small and sensitive: they stay as they are, unless the whole file is of one plain type.
        let is_vector = weight.shape().len() < 2;
        let wanted = match format {
            Some(format) if !(is_vector && format.block_elements() > 1) => format,
            _ => weight.format(),
        };
        let changes = pair.is_some() || wanted != weight.format();
        let fits = |format: Format| {
            weight
                .shape()
                .last()
                .is_multiple_of(format.block_elements())
        };
        let nearest = [wanted, Format::Q8_0, Format::F16].into_iter();
        let mut nearest = nearest.filter(|format| !changes || fits(*format));
        let format = nearest.next().unwrap_or(Format::F32);
        Piece {
            entry: Entry {
                name: name.to_owned(),
                shape: weight.shape().clone(),
                format,
            },
            weight,
            adapter: pair,
        }
    }

    /// Whether an adapter is merged in.
    pub fn is_merged(&self) -> bool {
        self.adapter.is_some()
    }

    /// The format it had.
    pub fn format_before(&self) -> Format {
        self.weight.format()
    }

    /// Writes its bytes. Errors: `NON_FINITE` naming the tensor for a value that the format cannot hold.
    fn write(&self, output: &mut atomic::Output) -> Result<()> {
        let format = self.entry.format;
        if !self.is_merged() && format == self.weight.format() {
            return output.bytes(self.weight.bytes().as_u8());
        }
        let merge = match &self.adapter {
            Some((path, pair, scale)) => Some(Merge::new(path, pair, *scale, &self.weight)?),
            None => None,
        };
        let shape = self.weight.shape();
        let (all, columns) = (shape.elements() / shape.last(), shape.last());
        let count = (BLOCK_VALUES / columns).clamp(1, all);
        let mut values = vec![0.0; count * columns];
        let mut packed = Vec::new();
        for first in (0..all).step_by(count) {
            let rows = count.min(all - first);
            let values = &mut values[..rows * columns];
            self.weight.unpack_rows(first, values)?;
            if let Some(merge) = &merge {
                merge.rows(first, values)?;
            }
            packed.resize(
                values.len() / format.block_elements() * format.block_bytes(),
                0,
            );
            format
                .pack(values, &mut packed)
                .map_err(|error| self.named(error, first))?;
            output.bytes(&packed)?;
        }
        Ok(())
    }

    fn named(&self, mut error: Error, first: usize) -> Error {
        let name = &self.entry.name;
        error.message = format!("tensor {name}, from row {first} on: {}", error.message);
        error.hint(format!(
            "choose a --type with a larger range than {}, such as bf16 or f32",
            self.entry.format
        ))
    }
}

/// Writes `pieces` as the GGUF file at `path`, with all metadata of the base; `each` hears of every tensor before it is
/// written. `format`: what the weights were turned into, if they were.
pub fn write_gguf(
    path: &Path,
    metadata: &Metadata,
    format: Option<Format>,
    pieces: &[Piece],
    each: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    let mut kept = Metadata::new();
    // The merged model is one file, also of a base in parts.
    for (key, value) in metadata
        .iter()
        .filter(|(key, _)| !key.starts_with("split."))
    {
        kept.set(key, value.clone());
    }
    let file_type = FILE_TYPES.iter().find(|(of, _)| Some(*of) == format);
    if let Some((_, number)) = file_type {
        kept.set("general.file_type", Value::U32(*number));
    }
    gguf::stream(path, &kept, &entries(pieces), &mut |number, output| {
        each(number)?;
        pieces[number].write(output)
    })
}

/// Writes `pieces` as the safetensors file at `path`; `each` hears of every tensor before it is written.
pub fn write_safetensors(
    path: &Path,
    pieces: &[Piece],
    each: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<()> {
    let quantised = pieces
        .iter()
        .find(|piece| piece.entry.format.block_elements() > 1);
    if let Some(piece) = quantised {
        return Err(error!(
            UnsupportedFormat,
            "tensor {} would be {}, which a safetensors file cannot hold",
            piece.entry.name,
            piece.entry.format
        )
        .hint("choose --type f32, f16, bf16 or own"));
    }
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    safetensors::stream(path, &metadata, &entries(pieces), &mut |number, output| {
        each(number)?;
        pieces[number].write(output)
    })
}

fn entries(pieces: &[Piece]) -> Vec<Entry> {
    pieces.iter().map(|piece| piece.entry.clone()).collect()
}
