//! `model.safetensors.index.json`: which shard of a model holds which tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::bail;
use crate::error;
use crate::error::{Error, Result};
use crate::format::Catalog;
use crate::format::catalog::in_file;

/// The index, with the path it was read from.
pub(super) struct Index {
    path: PathBuf,
    weight_map: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct File {
    weight_map: BTreeMap<String, String>,
}

/// Reads the index at `path`. Errors: no JSON of that form, no shards, a shard that is not a plain file name beside it.
pub(super) fn read(path: &Path) -> Result<Index> {
    let text = fs::read(path).map_err(|cause| Error::file("read", path, &cause))?;
    let file: File = serde_json::from_slice(&text).map_err(|cause| {
        error!(
            BadModel,
            "{}: {cause}; an index is {{\"weight_map\": {{tensor: file}}}}",
            path.display()
        )
    })?;
    let mut shards = file.weight_map.values();
    if let Some(shard) = shards.find(|shard| !is_plain_name(shard)) {
        bail!(
            BadModel,
            "{}: shard \"{}\" is not the name of a file beside the index",
            path.display(),
            shard.escape_default()
        );
    }
    if file.weight_map.is_empty() {
        bail!(BadModel, "{}: weight_map is empty", path.display());
    }
    Ok(Index {
        path: path.into(),
        weight_map: file.weight_map,
    })
}

/// An index must not reach outside its directory.
fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!(components.next(), Some(Component::Normal(only)) if only == name)
}

impl Index {
    /// The paths of all shards, in the order of their names.
    pub fn shards(&self) -> Vec<PathBuf> {
        let names: BTreeSet<_> = self.weight_map.values().collect();
        names
            .into_iter()
            .map(|name| self.path.with_file_name(name))
            .collect()
    }

    /// Checks that the shards hold exactly the tensors that the index says, each where it says.
    pub fn check(&self, catalog: &Catalog) -> Result<()> {
        let failed = |error| Err(in_file(&self.path, error));
        let paths = catalog.paths();
        for tensor in catalog.tensors() {
            let found = paths[tensor.part()].file_name().unwrap_or_default();
            match self.weight_map.get(&tensor.name) {
                Some(shard) if **shard == *found => {}
                Some(shard) => {
                    return failed(error!(
                        BadModel,
                        "tensor {} should be in {shard} but is in {}",
                        tensor.name,
                        found.display()
                    ));
                }
                None => {
                    return failed(error!(
                        BadModel,
                        "tensor {} in {} is not in the index",
                        tensor.name,
                        found.display()
                    ));
                }
            }
        }
        let mut missing = self.weight_map.iter();
        match missing.find(|(name, _)| catalog.get(name).is_none()) {
            Some((name, shard)) => failed(error!(
                BadModel,
                "tensor {name} should be in {shard} but is not"
            )),
            None => Ok(()),
        }
    }
}
