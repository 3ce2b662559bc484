//! Room on a disk.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that this user can still write to the file system of `path`, which must exist; none where it does not say.
pub fn free_bytes(path: &Path) -> io::Result<Option<u64>> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut about = MaybeUninit::<libc::statvfs>::uninit();
    // Safety: the path ends with a zero, and `about` is only read after the call has filled it.
    let about = unsafe {
        if libc::statvfs(path.as_ptr(), about.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        about.assume_init()
    };
    // The types of the fields differ between systems.
    #[allow(clippy::unnecessary_cast)]
    let (blocks, available, size) = (
        about.f_blocks as u64,
        about.f_bavail as u64,
        about.f_frsize as u64,
    );
    Ok((blocks > 0).then(|| available.saturating_mul(size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_own_tool_sees_as_much_room() {
        let ours = free_bytes(Path::new("/")).unwrap().unwrap();
        let stat = std::process::Command::new("stat")
            .args(["-f", "-c", "%a %S", "/"])
            .output();
        let Ok(stat) = stat else {
            println!("skipped: there is no stat");
            return;
        };
        let text = String::from_utf8(stat.stdout).unwrap();
        let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>());
        let mut next = || numbers.next().unwrap().unwrap();
        let theirs = next() * next();
        // Others write meanwhile.
        assert!(ours.abs_diff(theirs) < 4 << 30, "{ours} and {theirs}");
        assert!(free_bytes(Path::new("/absent")).is_err());
    }
}
