//! safetensors: a JSON header of names, types, shapes and offsets, then the tensors without gaps.
//!
//! Source: huggingface/safetensors, README "Format"; sharded models: `model.safetensors.index.json` of transformers.

mod index;
mod write;

pub use write::write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::safetensors::Dtype;
use ::safetensors::tensor::Metadata;

use crate::bail;
use crate::error;
use crate::error::{Error, Result};
use crate::format::catalog::in_file;
use crate::format::mapping::{self, DAMAGED};
use crate::format::{Catalog, Tensor};
use crate::quant::{Format, Weight};
use crate::shape::Shape;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// The header's length comes first, as u64; more than this no writer makes and no reader takes.
const LENGTH_BYTES: usize = 8;
const MAX_HEADER: usize = 100_000_000;

/// A model in safetensors files, mapped. Opening reads the headers only.
pub struct Safetensors {
    metadata: BTreeMap<String, String>,
    catalog: Catalog,
}

impl Safetensors {
    /// Opens a `.safetensors` file, an `.index.json` with its shards, or a directory that holds one of them as `model.…`.
    ///
    /// Errors: nothing of that kind there, a header that contradicts itself or the size of the file, a missing shard, an
    /// index that disagrees with its shards. A tensor of an unsupported type is no error until it is asked for.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Self::open(&in_directory(path)?);
        }
        let is_index = path
            .extension()
            .is_some_and(|extension| extension == "json");
        let mut model = Safetensors {
            metadata: BTreeMap::new(),
            catalog: Catalog::default(),
        };
        if is_index {
            let index = index::read(path)?;
            for shard in index.shards() {
                model.add(&shard)?;
            }
            index.check(&model.catalog)?;
        } else {
            model.add(path)?;
        }
        Ok(model)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        let bytes = mapping::open(path)?;
        let part = self.catalog.parts();
        let (metadata, tensors) =
            read_header(bytes.as_u8(), part).map_err(|error| in_file(path, error))?;
        self.metadata.extend(metadata);
        self.catalog.add(path, bytes, tensors)
    }

    /// The strings under `__metadata__`.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// All tensors with shapes and types, and the paths of the shards.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.catalog.names()
    }

    /// The tensor `name`, uncopied: F32, F16 or BF16; see [`Catalog::weight`].
    pub fn weight(&self, name: &str) -> Result<Weight> {
        self.catalog.weight(name)
    }
}

/// The file that stands for the model in a directory; transformers looks for the single file first, too.
fn in_directory(directory: &Path) -> Result<PathBuf> {
    let found = [SINGLE, INDEX].map(|name| directory.join(name));
    if let Some(path) = found.into_iter().find(|path| path.exists()) {
        return Ok(path);
    }
    let hint = match directory.join("pytorch_model.bin").exists() {
        true => "it has pytorch_model.bin: save the model as safetensors",
        false => "name a directory as the hub has it, or the .safetensors or .gguf file itself",
    };
    Err(error!(
        NotFound,
        "{} has neither {SINGLE} nor {INDEX}",
        directory.display()
    )
    .hint(hint))
}

/// `__metadata__` and the tensors of `file`, which is file number `part` of its model, in the order of their data.
fn read_header(file: &[u8], part: usize) -> Result<(BTreeMap<String, String>, Vec<Tensor>)> {
    let header = header(file)?;
    let data = LENGTH_BYTES + header.len();
    let header: Metadata =
        serde_json::from_slice(header).map_err(|cause| damaged(format!("the header: {cause}")))?;
    // The crate has checked that the tensors lie without gaps and are as long as their types and shapes say.
    if data.checked_add(header.data_len()) != Some(file.len()) {
        return Err(damaged(format!(
            "the header describes {} bytes of tensors, the file has {}",
            header.data_len(),
            file.len() - data
        )));
    }
    let mut tensors = Vec::new();
    for name in header.offset_keys() {
        let Some(info) = header.info(&name) else {
            bail!(Internal, "tensor {name} is in the header's list only");
        };
        let (start, end) = info.data_offsets;
        tensors.push(Tensor::new(
            &name,
            Shape::from(&info.shape[..]),
            Cow::Owned(info.dtype.to_string()),
            format(info.dtype),
            part,
            data + start..data + end,
        ));
    }
    let metadata = header.metadata().iter().flatten();
    let metadata = metadata.map(|(key, value)| (key.clone(), value.clone()));
    Ok((metadata.collect(), tensors))
}

/// The bytes of the header.
fn header(file: &[u8]) -> Result<&[u8]> {
    let length = file.first_chunk::<LENGTH_BYTES>();
    let length = length.map(|bytes| u64::from_le_bytes(*bytes));
    let length = length.and_then(|length| usize::try_from(length).ok());
    let rest = file.get(LENGTH_BYTES..).unwrap_or_default();
    match length.and_then(|length| rest.get(..length)) {
        Some(header) if header.len() <= MAX_HEADER && header.starts_with(b"{") => Ok(header),
        _ => Err(match mapping::mistaken_for(file) {
            Some((what, hint)) => {
                error!(BadModel, "this is {what}, not a safetensors file").hint(hint)
            }
            None => damaged(format!(
                "this is not a whole safetensors file: of {} bytes, the first eight announce a header of {}",
                file.len(),
                length.map_or("no size".into(), |length| format!("{length} bytes"))
            )),
        }),
    }
}

fn format(dtype: Dtype) -> Option<Format> {
    match dtype {
        Dtype::F32 => Some(Format::F32),
        Dtype::F16 => Some(Format::F16),
        Dtype::BF16 => Some(Format::BF16),
        _ => None,
    }
}

fn damaged(message: String) -> Error {
    Error::new(crate::error::Code::BadModel, message).hint(DAMAGED)
}
