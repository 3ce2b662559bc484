//! safetensors: a JSON header of names, types, shapes and offsets, then the tensors without gaps.
//!
//! Source: huggingface/safetensors, README "Format"; sharded models: `model.safetensors.index.json` of transformers.

mod index;
mod write;

pub use write::{EachTensor, Tensors, stream, write, write_f32};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ::safetensors::Dtype;
use ::safetensors::tensor::Metadata;

use crate::backend::Bytes;
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

    /// The content of a file that has been read, for places that cannot be mapped; `path` is for messages.
    pub fn of_bytes(path: &Path, content: &[u8]) -> Result<Self> {
        let mut model = Safetensors {
            metadata: BTreeMap::new(),
            catalog: Catalog::default(),
        };
        model.add_bytes(path, Bytes::copy_of(content))?;
        Ok(model)
    }

    fn add(&mut self, path: &Path) -> Result<()> {
        self.add_bytes(path, mapping::open(path)?)
    }

    fn add_bytes(&mut self, path: &Path, bytes: Bytes) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use std::fs;

    /// The bytes of a file with this header, unpadded, and `data` after it.
    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [
            &(header.len() as u64).to_le_bytes(),
            header.as_bytes(),
            data,
        ]
        .concat()
    }

    fn open(content: &[u8]) -> Result<Safetensors> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.safetensors");
        fs::write(&path, content).unwrap();
        Safetensors::open(&path)
    }

    fn assert_refused(content: &[u8], message: &str) {
        let error = open(content).err().expect("the file is refused");
        assert!(error.message.contains(message), "{error}");
        assert!(error.message.contains("m.safetensors"), "{error}");
    }

    #[test]
    fn misaligned_values_are_read() {
        // 61 bytes of header: the data starts at 69, which no f32 may in memory.
        let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}       "#;
        assert_eq!(header.len() % 4, 1);
        let data: Vec<u8> = [1.5f32, -2.0]
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect();
        let weight = open(&file(header, &data)).unwrap().weight("a").unwrap();
        assert_eq!(weight.to_f32().unwrap(), [1.5, -2.0]);
    }

    #[test]
    fn other_types_are_listed_and_refused_when_asked_for() {
        let header = r#"{"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
        let model = open(&file(header, &[0, 0])).unwrap();
        let tensor = &model.catalog().tensors()[0];
        assert_eq!(
            (&*tensor.type_name, &tensor.shape[..]),
            ("F8_E4M3", &[2][..])
        );
        let error = model.weight("a").err().unwrap();
        assert_eq!(error.code, Code::UnsupportedFormat);
        assert!(
            error.message.contains("tensor a is of type F8_E4M3"),
            "{error}"
        );
    }

    #[test]
    fn files_that_are_none_or_only_in_part_are_refused() {
        assert_refused(b"", "is empty");
        assert_refused(b"{}", "the first eight announce a header of no size");
        assert_refused(
            &u64::MAX.to_le_bytes(),
            "a header of 18446744073709551615 bytes",
        );
        assert_refused(b"<html><body>404 not found", "this is a web page");
        assert_refused(
            b"version https://git-lfs.github.com/spec/v1\n",
            "a Git LFS pointer",
        );
        assert_refused(b"GGUF\x03\0\0\0rest of the model", "this is a GGUF file");
        let tensor = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert_refused(
            &file(tensor, &[0; 7]),
            "describes 8 bytes of tensors, the file has 7",
        );
        assert_refused(&file("{\"a\":", &[]), "the header: EOF while parsing");
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let header = |dtype: &str, shape: &str, end: &str| {
            format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{end}]}}}}"#)
        };
        let most = u64::MAX.to_string();
        assert_refused(
            &file(&header("U8", &format!("[{most}]"), &most), &[]),
            "m.safetensors: ",
        );
        let square = header("F32", "[4294967296,4294967296]", "0");
        assert_refused(&file(&square, &[]), "the header: ");
        assert_refused(
            &file(
                &header("U8", "[2305843009213693951]", "2305843009213693951"),
                &[],
            ),
            "describes 2305843009213693951 bytes",
        );
    }

    /// A shard with one scalar for each of `names`.
    fn write_shard(path: &Path, names: &[&str]) {
        let value = crate::backend::Bytes::from_f32(vec![1.0]);
        let weight = Weight::new(Format::F32, Shape::from([]), value).unwrap();
        let tensors: Vec<_> = names
            .iter()
            .map(|name| (name.to_string(), weight.clone()))
            .collect();
        write(path, &BTreeMap::new(), &tensors).unwrap();
    }

    #[test]
    fn sharded_models_are_opened_by_directory_or_index() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        write_shard(&place("m-1.safetensors"), &["a", "b"]);
        write_shard(&place("m-2.safetensors"), &["c"]);
        let index =
            |map: &str| fs::write(place(INDEX), format!(r#"{{"weight_map":{{{map}}}}}"#)).unwrap();
        let agreed = r#""a":"m-1.safetensors","b":"m-1.safetensors","c":"m-2.safetensors""#;
        index(agreed);
        for path in [folder.path(), &place(INDEX)] {
            let model = Safetensors::open(path).unwrap();
            assert_eq!(model.tensor_names().collect::<Vec<_>>(), ["a", "b", "c"]);
            assert_eq!(model.catalog().paths().len(), 2);
            assert_eq!(model.weight("c").unwrap().to_f32().unwrap(), [1.0]);
        }

        let error = || Safetensors::open(folder.path()).err().unwrap().message;
        index(&agreed.replace(r#""b":"m-1"#, r#""b":"m-2"#));
        assert!(
            error().ends_with("tensor b should be in m-2.safetensors but is in m-1.safetensors")
        );
        index(r#""a":"m-1.safetensors","c":"m-2.safetensors""#);
        assert!(error().ends_with("tensor b in m-1.safetensors is not in the index"));
        index(&format!(r#"{agreed},"d":"m-2.safetensors""#));
        assert!(error().ends_with("tensor d should be in m-2.safetensors but is not"));
        index(r#""a":"../m-1.safetensors""#);
        assert!(error().contains("is not the name of a file beside the index"));
        index("");
        assert!(error().ends_with("weight_map is empty"));
        fs::write(place(INDEX), "[1]").unwrap();
        assert!(error().contains("an index is"));
        index(&agreed.replace("m-2", "m-3"));
        let missing = Safetensors::open(folder.path()).err().unwrap();
        assert_eq!(missing.code, Code::NotFound);
        assert!(missing.message.contains("m-3.safetensors"), "{missing}");
    }

    #[test]
    fn a_directory_without_a_model_says_what_it_lacks() {
        let folder = tempfile::tempdir().unwrap();
        let error = Safetensors::open(folder.path()).err().unwrap();
        assert_eq!(error.code, Code::NotFound);
        assert!(
            error.message.contains("has neither model.safetensors nor"),
            "{error}"
        );
        fs::write(folder.path().join("pytorch_model.bin"), "x").unwrap();
        let error = Safetensors::open(folder.path()).err().unwrap();
        assert!(error.hint.unwrap().contains("pytorch_model.bin"));
    }
}
