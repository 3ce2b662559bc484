//! Locks of files for JavaScript, which has none. Those of Python's `filelock` are the same.

use std::fs::{File, OpenOptions};
use std::path::Path;

use napi_derive::napi;

use super::addon::to_napi;
use crate::backend::try_lock;
use crate::error::Error;

/// A file that is locked until [`FileLock::release`], or until the process ends.
#[napi]
pub struct FileLock {
    file: Option<File>,
}

#[napi]
impl FileLock {
    /// Gives the file to the next who wants it.
    #[napi]
    pub fn release(&mut self) {
        drop(self.file.take());
    }
}

/// The lock of the file at `path`, which is made if need be; null while another process has it.
///
/// Where the file system has no locks everybody gets one: fetching a model is worth more than its protection from a second
/// process.
#[napi]
pub fn lock_file(path: String) -> napi::Result<Option<FileLock>> {
    let opened = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let file = opened.map_err(|cause| to_napi(&Error::file("write", Path::new(&path), &cause)))?;
    match try_lock(&file) {
        Ok(false) => Ok(None),
        _ => Ok(Some(FileLock { file: Some(file) })),
    }
}
