//! What a run may write to: never a file that it reads, `--overwrite` or not, and never one file twice.

use std::path::{Path, PathBuf};

use crate::error;
use crate::error::Result;
use crate::export::Output;

/// Files of a Hugging Face directory beside the weights, of which an output could have the name.
const MODEL_FILES: [&str; 4] = [
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// Refuses an output or log that is one of `inputs`, and a log that is one of the output's files.
///
/// `inputs`: the weight files, the data, the held-out data, and the chat template. `model`: the path of the model.
/// `adapter` is continued; the output may take its place in the end, a log may not.
pub fn check(
    output: &Output,
    log: Option<&Path>,
    inputs: &[&Path],
    model: &Path,
    adapter: Option<&Path>,
) -> Result<()> {
    let inputs: Vec<PathBuf> = inputs
        .iter()
        .map(|path| path.to_path_buf())
        .chain(MODEL_FILES.map(|name| model.join(name)))
        .map(|path| resolved(&path))
        .collect();
    let files = output.files();
    for (option, path) in files
        .iter()
        .map(|path| ("--output", path.as_path()))
        .chain(log.map(|path| ("--log", path)))
    {
        let place = resolved(path);
        let is_of_adapter = |adapter: &Path| {
            let adapter = resolved(adapter);
            let is_in_it = place.parent() == Some(&*adapter) && path.exists();
            place == adapter || is_in_it
        };
        let is_read =
            inputs.contains(&place) || option == "--log" && adapter.is_some_and(is_of_adapter);
        if is_read {
            return Err(error!(
                Usage,
                "{} is what this run reads, so it cannot be written to",
                path.display()
            )
            .hint(format!("choose another {option}")));
        }
    }
    if let Some(log) = log
        && files.iter().any(|path| resolved(path) == resolved(log))
    {
        return Err(
            error!(Usage, "--log {} is a file of the output", log.display())
                .hint("choose another --log"),
        );
    }
    Ok(())
}

/// The path without symbolic links and dots, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(whole) = path.canonicalize() {
        return whole;
    }
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    match (parent.canonicalize(), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_under_another_path_is_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, folder.path().join("b")).unwrap();
        assert_eq!(resolved(&folder.path().join("b")), resolved(&file));
        let new = folder.path().join("new");
        assert_eq!(resolved(&folder.path().join("./new")), resolved(&new));
    }
}
