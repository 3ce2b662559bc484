//! Locks of whole files, which end with the process that has them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the exclusive lock of `file` (`flock`), which lasts until the file is closed; false while another has it.
///
/// `File::try_lock` of the standard library is the same on Linux, but always fails on Android (Rust 1.95). Errors: a file
/// system without locks.
pub fn try_lock(file: &File) -> io::Result<bool> {
    // Safety: the descriptor is open as long as `file` is borrowed.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            cause if cause.kind() == io::ErrorKind::WouldBlock => Ok(false),
            cause => Err(cause),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_had_by_one_and_also_keeps_the_standard_library_s_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = File::create(&path).unwrap();
        let second = File::open(&path).unwrap();
        assert!(try_lock(&first).unwrap());
        assert!(!try_lock(&second).unwrap());
        let is_taken =
            |file: &File| matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock));
        assert!(is_taken(&second));
        drop(first);
        assert!(try_lock(&second).unwrap());
    }
}
