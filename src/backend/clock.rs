//! The time of day where the machine is.

use std::ffi::{CString, c_char};
use std::time::{SystemTime, UNIX_EPOCH};

/// The time `at` in the local time zone, written as C's and Python's `strftime` do; empty when `format` cannot be written
/// in 256 bytes.
pub fn local_time(format: &str, at: SystemTime) -> String {
    let Ok(format) = CString::new(format) else {
        return String::new();
    };
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut written = [0u8; 256];
    // Safety: both structures are plain data that the calls fill; `strftime` gets the true size of its buffer and a
    // format that ends in a zero byte, and returns how many bytes it wrote.
    let length = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        let seconds = seconds as libc::time_t;
        libc::localtime_r(&seconds, &mut parts);
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
        let date = local_time("%d %b %Y|%Y-%m-%d", SystemTime::now());
        let (long, short) = date.split_once('|').unwrap();
        assert_eq!(long.split(' ').count(), 3, "{date}");
        assert_eq!(
            short.split('-').map(str::len).collect::<Vec<_>>(),
            [4, 2, 2]
        );
        assert_eq!(local_time(&"x".repeat(300), UNIX_EPOCH), "");
        assert_eq!(local_time("\0", UNIX_EPOCH), "");
        // Noon in Greenwich: the day is the same from eleven hours west to eleven hours east of it.
        let noon = UNIX_EPOCH + std::time::Duration::from_secs(43_200);
        assert_eq!(local_time("%d %b %Y", noon), "01 Jan 1970");
    }
}
