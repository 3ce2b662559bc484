//! The two forms of `--output` and the names of the files each has.

use std::path::{Path, PathBuf};

use crate::error;
use crate::error::Result;
use crate::format::adapter::peft::{CONFIG, TENSORS, sidecar};

/// Where an adapter goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// `x.safetensors`, with `x_config.json` and `x.gguf` beside it.
    File(PathBuf),
    /// A directory that PEFT loads, with `adapter.gguf` and `amv_train_config.json` in it.
    Directory(PathBuf),
}

impl Output {
    /// `x.safetensors` is a file; a path that ends with a slash or is a directory is a directory.
    pub fn parse(path: &Path) -> Result<Output> {
        let text = path.as_os_str().as_encoded_bytes();
        if path.is_dir() || text.ends_with(b"/") {
            return Ok(Output::Directory(path.to_owned()));
        }
        let is_safetensors = path
            .extension()
            .is_some_and(|extension| extension == "safetensors");
        match is_safetensors {
            true => Ok(Output::File(path.to_owned())),
            false => Err(error!(
                Usage,
                "--output {}: this is neither a .safetensors file nor a directory",
                path.display()
            )
            .hint(format!(
                "{0}.safetensors writes PEFT tensors, a sidecar and {0}.gguf; {0}/ writes a PEFT directory",
                path.with_extension("").display()
            ))),
        }
    }

    /// The directory that the files are in.
    pub fn directory(&self) -> PathBuf {
        match self {
            Output::Directory(directory) => directory.clone(),
            Output::File(file) => match file.parent() {
                Some(parent) if parent != Path::new("") => parent.to_owned(),
                _ => PathBuf::from("."),
            },
        }
    }

    /// The tensors under PEFT's names: what the run's result calls `adapter`.
    pub fn peft(&self) -> PathBuf {
        match self {
            Output::File(file) => file.clone(),
            Output::Directory(directory) => directory.join(TENSORS),
        }
    }

    /// PEFT's configuration; a single file has none, its sidecar holds the same settings.
    pub fn peft_config(&self) -> Option<PathBuf> {
        match self {
            Output::File(_) => None,
            Output::Directory(directory) => Some(directory.join(CONFIG)),
        }
    }

    /// llama.cpp's adapter.
    pub fn gguf(&self) -> PathBuf {
        match self {
            Output::File(file) => file.with_extension("gguf"),
            Output::Directory(directory) => directory.join("adapter.gguf"),
        }
    }

    pub fn sidecar(&self) -> PathBuf {
        match self {
            Output::File(file) => sidecar(file),
            Output::Directory(directory) => directory.join("amv_train_config.json"),
        }
    }

    /// `<stem or directory>.amv` beside it, for metrics and checkpoints.
    pub fn work_directory(&self) -> PathBuf {
        let (Output::File(path) | Output::Directory(path)) = self;
        let stem = match self {
            Output::File(file) => file.file_stem(),
            Output::Directory(directory) => directory.file_name(),
        };
        match stem {
            Some(stem) => {
                let mut name = stem.to_owned();
                name.push(".amv");
                path.with_file_name(name)
            }
            // `.`, `..` and `/` have no name to put the ending to.
            None => path.join(".amv"),
        }
    }

    /// Every file that is written.
    pub fn files(&self) -> Vec<PathBuf> {
        let files = [
            Some(self.peft()),
            self.peft_config(),
            Some(self.gguf()),
            Some(self.sidecar()),
        ];
        files.into_iter().flatten().collect()
    }

    /// Whether another form of output would have one of these files: `d/` and `d/adapter_model.safetensors` do.
    pub fn shares_directory(&self) -> bool {
        let whole = Output::Directory(self.directory()).files();
        self.files().iter().any(|file| whole.contains(file))
    }

    /// The files that are there already.
    pub fn existing(&self) -> Vec<PathBuf> {
        let mut files = self.files();
        files.retain(|file| file.exists());
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_neighbours() {
        let output = Output::parse(Path::new("out/v1.2.safetensors")).unwrap();
        assert_eq!(output.directory(), Path::new("out"));
        assert_eq!(output.peft(), Path::new("out/v1.2.safetensors"));
        assert_eq!(output.peft_config(), None);
        assert_eq!(output.gguf(), Path::new("out/v1.2.gguf"));
        assert_eq!(output.sidecar(), Path::new("out/v1.2_config.json"));
        assert_eq!(output.work_directory(), Path::new("out/v1.2.amv"));
        let here = Output::parse(Path::new("x.safetensors")).unwrap();
        assert_eq!(here.directory(), Path::new("."));
        assert_eq!(here.work_directory(), Path::new("x.amv"));
    }

    #[test]
    fn a_slash_or_an_existing_directory_means_a_directory() {
        let output = Output::parse(Path::new("new/adapter/")).unwrap();
        assert_eq!(
            output.peft(),
            Path::new("new/adapter/adapter_model.safetensors")
        );
        assert_eq!(output.work_directory(), Path::new("new/adapter.amv"));
        let folder = tempfile::tempdir().unwrap();
        let output = Output::parse(folder.path()).unwrap();
        assert_eq!(output, Output::Directory(folder.path().into()));
        assert!(output.existing().is_empty());
        std::fs::write(output.gguf(), "x").unwrap();
        assert_eq!(output.existing(), [output.gguf()]);
    }

    #[test]
    fn a_directory_and_a_file_of_its_name_share_their_files() {
        let shares = |text: &str| Output::parse(Path::new(text)).unwrap().shares_directory();
        assert!(shares("d/") && shares("d/adapter_model.safetensors"));
        // It would have d/adapter.gguf.
        assert!(shares("d/adapter.safetensors"));
        assert!(!shares("d/notes.safetensors") && !shares("notes.safetensors"));
    }

    #[test]
    fn other_names_are_refused_with_both_forms() {
        let error = Output::parse(Path::new("out/x.gguf")).unwrap_err();
        assert_eq!(error.code, crate::error::Code::Usage);
        let hint = error.hint.unwrap();
        assert!(hint.contains("out/x.safetensors") && hint.contains("out/x/"));
    }
}
