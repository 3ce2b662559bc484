//! The tensors of a model, whatever its file format: names, shapes, types, and the mapped bytes as weights.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::backend::Bytes;
use crate::error;
use crate::error::{Error, Result};
use crate::quant::{Format, Weight};
use crate::shape::Shape;

/// One tensor of a model file.
#[derive(Debug, Clone)]
pub struct Tensor {
    pub name: String,
    /// Row-major: the last axis is the contiguous one, as in PyTorch.
    pub shape: Shape,
    /// The type in the words of the file format, e.g. `Q4_K` or `F8_E4M3`.
    pub type_name: Cow<'static, str>,
    /// How it is read; none when the type is not supported.
    pub format: Option<Format>,
    part: usize,
    bytes: Range<usize>,
}

impl Tensor {
    /// `bytes` is where the data lies in file number `part`; it is not looked at when `format` is none.
    pub(super) fn new(
        name: &str,
        shape: Shape,
        type_name: Cow<'static, str>,
        format: Option<Format>,
        part: usize,
        bytes: Range<usize>,
    ) -> Self {
        Tensor {
            name: name.to_owned(),
            shape,
            type_name,
            format,
            part,
            bytes,
        }
    }

    /// The number of the file that holds it, in the order of [`Catalog::paths`].
    pub fn part(&self) -> usize {
        self.part
    }

    /// Bytes in the file; none when the type is not supported.
    pub fn bytes(&self) -> Option<usize> {
        self.format.map(|_| self.bytes.len())
    }
}

struct Part {
    path: PathBuf,
    bytes: Bytes,
}

/// All tensors of a model in file order, over the mappings of its files.
#[derive(Default)]
pub struct Catalog {
    parts: Vec<Part>,
    tensors: Vec<Tensor>,
    index: HashMap<String, usize>,
}

impl Catalog {
    /// Takes one more file with its tensors; an error when a name exists already.
    pub(super) fn add(&mut self, path: &Path, bytes: Bytes, tensors: Vec<Tensor>) -> Result<()> {
        self.tensors.reserve_exact(tensors.len());
        for tensor in tensors {
            let known = self.index.insert(tensor.name.clone(), self.tensors.len());
            if let Some(known) = known {
                let first = self.tensors[known].part;
                let other = self.parts.get(first).map_or(path, |part| &part.path);
                return Err(error!(
                    BadModel,
                    "{}: tensor {} is there twice (first in {})",
                    path.display(),
                    tensor.name,
                    other.display()
                ));
            }
            self.tensors.push(tensor);
        }
        self.parts.push(Part {
            path: path.into(),
            bytes,
        });
        Ok(())
    }

    /// The number of files taken so far, which is the `part` of the next one.
    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The files of the model.
    pub fn paths(&self) -> Vec<&Path> {
        self.parts.iter().map(|part| part.path.as_path()).collect()
    }

    /// Every tensor, supported or not, in file order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|tensor| &*tensor.name)
    }

    pub fn get(&self, name: &str) -> Option<&Tensor> {
        Some(&self.tensors[*self.index.get(name)?])
    }

    /// The tensor `name` as a weight over the mapped file; nothing is copied or converted.
    ///
    /// Errors: no such tensor, no elements, a type that is not supported (the message names both).
    pub fn weight(&self, name: &str) -> Result<Weight> {
        let tensor = self.get(name).ok_or_else(|| {
            let paths = self.paths();
            let place = paths.first().map(|path| path.display().to_string());
            error!(
                BadModel,
                "{}: there is no tensor {name}",
                place.unwrap_or_default()
            )
        })?;
        let part = &self.parts[tensor.part];
        let failed = |error: Error| in_file(&part.path, error);
        let Some(format) = tensor.format else {
            let known: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
            return Err(failed(error!(
                UnsupportedFormat,
                "tensor {name} is of type {}, which is not supported", tensor.type_name
            ))
            .hint(format!("supported types: {}", known.join(", "))));
        };
        if tensor.shape.contains(&0) {
            return Err(failed(error!(
                BadModel,
                "tensor {name} {} has no elements", tensor.shape
            )));
        }
        let bytes = part.bytes.slice(tensor.bytes.clone())?;
        Weight::new(format, tensor.shape.clone(), bytes).map_err(failed)
    }
}

/// Puts the path before the message of an error that happened inside the file.
pub(super) fn in_file(path: &Path, mut error: Error) -> Error {
    error.message = format!("{}: {}", path.display(), error.message);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, shape: &[usize], format: Option<Format>, bytes: Range<usize>) -> Tensor {
        Tensor::new(name, shape.into(), "F32".into(), format, 0, bytes)
    }

    fn catalog() -> Catalog {
        let mut catalog = Catalog::default();
        let tensors = vec![
            tensor("a", &[2, 1], Some(Format::F32), 4..12),
            tensor("empty", &[0, 3], Some(Format::F32), 0..0),
            tensor("foreign", &[2], None, 0..0),
        ];
        let bytes = Bytes::from_f32(vec![1.0, 2.0, 3.0]);
        catalog.add(Path::new("m.gguf"), bytes, tensors).unwrap();
        catalog
    }

    #[test]
    fn a_weight_is_a_slice_of_its_file() {
        let weight = catalog().weight("a").unwrap();
        assert_eq!(weight.to_f32().unwrap(), [2.0, 3.0]);
        assert_eq!(&weight.shape()[..], [2, 1]);
    }

    #[test]
    fn errors_name_the_file_the_tensor_and_the_type() {
        let message = |name: &str| catalog().weight(name).err().unwrap().message;
        assert_eq!(message("b"), "m.gguf: there is no tensor b");
        assert_eq!(
            message("foreign"),
            "m.gguf: tensor foreign is of type F32, which is not supported"
        );
        assert_eq!(
            message("empty"),
            "m.gguf: tensor empty [0, 3] has no elements"
        );
    }

    #[test]
    fn a_name_in_two_files_is_refused() {
        let again = vec![tensor("a", &[1], Some(Format::F32), 0..4)];
        let bytes = Bytes::from_f32(vec![0.0]);
        let error = catalog()
            .add(Path::new("n.gguf"), bytes, again)
            .unwrap_err();
        assert_eq!(
            error.message,
            "n.gguf: tensor a is there twice (first in m.gguf)"
        );
    }
}
