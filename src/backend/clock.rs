//! The time of day where the machine is.

use std::ffi::{CString, c_char};

/// The time now in the local time zone, written as C's and Python's `strftime` do; empty when `format` cannot be written
/// in 256 bytes.
pub fn local_time(format: &str) -> String {
    let Ok(format) = CString::new(format) else {
        return String::new();
    };
    let mut written = [0u8; 256];
    // Safety: both structures are plain data that the calls fill; `strftime` gets the true size of its buffer and a
    // format that ends in a zero byte, and returns how many bytes it wrote.
    let length = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        let now = libc::time(std::ptr::null_mut());
        libc::localtime_r(&now, &mut parts);
        let buffer = written.as_mut_ptr().cast::<c_char>();
        libc::strftime(buffer, written.len(), format.as_ptr(), &parts)
    };
    String::from_utf8_lossy(&written[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_has_the_parts_of_its_format() {
        let date = local_time("%d %b %Y|%Y-%m-%d");
        let (long, short) = date.split_once('|').unwrap();
        assert_eq!(long.split(' ').count(), 3, "{date}");
        assert_eq!(
            short.split('-').map(str::len).collect::<Vec<_>>(),
            [4, 2, 2]
        );
        assert_eq!(local_time(&"x".repeat(300)), "");
        assert_eq!(local_time("\0"), "");
    }
}
