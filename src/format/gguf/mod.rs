//! GGUF: metadata, tensor descriptions and aligned tensor data in one file, or in numbered parts of one model.
//!
//! Source: ggml-org/ggml, `docs/gguf.md`, versions 2 and 3.

mod cursor;
mod description;
mod header;
mod split;
mod value;
mod write;

pub use value::{Array, Metadata, Value};
pub use write::{stream, write};

use std::path::Path;

use crate::bail;
use crate::error;
use crate::error::Result;
use crate::format::catalog::in_file;
use crate::format::{Catalog, mapping};
use crate::quant::Weight;

/// A GGUF model, mapped. Opening reads the headers only.
pub struct GgufFile {
    metadata: Metadata,
    catalog: Catalog,
}

impl GgufFile {
    /// Opens the file at `path`; of a split model (`x-00001-of-00003.gguf`), any part opens all of them.
    ///
    /// Errors: not a GGUF file of version 2 or 3, a header that contradicts itself or the size of the file, a missing
    /// or foreign part. A tensor of an unsupported type is no error until it is asked for.
    pub fn open(path: &Path) -> Result<Self> {
        let (bytes, header) = open_part(path, 0)?;
        let parts = split::parts(path, &header.metadata).map_err(|error| in_file(path, error))?;
        let mut catalog = Catalog::default();
        let Some(parts) = parts else {
            catalog.add(path, bytes, header.tensors)?;
            return Ok(GgufFile {
                metadata: header.metadata,
                catalog,
            });
        };

        let mut metadata = None;
        for (number, part) in parts.iter().enumerate() {
            let (bytes, header) = open_part(part, number)?;
            split::check(&header.metadata, number, parts.len())
                .map_err(|error| in_file(part, error))?;
            catalog.add(part, bytes, header.tensors)?;
            metadata.get_or_insert(header.metadata);
        }
        let metadata = metadata.unwrap_or_default();
        let found = catalog.tensors().len() as u64;
        match metadata.integer(split::TENSORS_KEY) {
            Some(expected) if expected != found => bail!(
                BadModel,
                "{}: the parts hold {found} tensors, {} says {expected}",
                path.display(),
                split::TENSORS_KEY
            ),
            _ => Ok(GgufFile { metadata, catalog }),
        }
    }

    /// Metadata; of a split model, that of its first part.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// All tensors with shapes and types, and the paths of the parts.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.catalog.names()
    }

    /// The tensor `name`, uncopied; see [`Catalog::weight`].
    pub fn weight(&self, name: &str) -> Result<Weight> {
        self.catalog.weight(name)
    }
}

fn open_part(path: &Path, number: usize) -> Result<(crate::backend::Bytes, header::Header)> {
    let bytes = mapping::open(path)?;
    let header = header::read(bytes.as_u8(), number).map_err(|error| in_file(path, error))?;
    Ok((bytes, header))
}

/// Rounds `at` up to where the next tensor may start; an error when that is past all addresses.
fn align(at: usize, alignment: usize) -> Result<usize> {
    at.checked_next_multiple_of(alignment)
        .ok_or_else(|| error!(BadModel, "an alignment of {alignment} is too large"))
}
