//! What the process occupies and the machine has, from /proc; zero where there is none.

use std::path::{Path, PathBuf};

/// Resident memory of this process in bytes, mapped pages included.
pub fn resident_bytes() -> u64 {
    status_bytes("/proc/self/status", "VmRSS:")
}

/// The highest resident memory so far in bytes.
pub fn peak_bytes() -> u64 {
    status_bytes("/proc/self/status", "VmHWM:")
}

/// Memory of the machine and what of it programs can still get, in bytes.
pub fn machine_bytes() -> (u64, u64) {
    let field = |name| status_bytes("/proc/meminfo", name);
    (field("MemTotal:"), field("MemAvailable:"))
}

fn status_bytes(path: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Memory that this process can still get, in bytes: what the machine has available or what its control groups leave,
/// whichever is less. None where the system says neither.
pub fn available_bytes() -> Option<u64> {
    let machine = match status_bytes("/proc/meminfo", "MemAvailable:") {
        0 => None,
        bytes => Some(bytes),
    };
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = groups
        .lines()
        .filter_map(group)
        .filter_map(|group| group.left());
    groups.chain(machine).min()
}

/// Begins to measure [`peak_bytes`] anew. Where the system does not let it, the peak stays that of the whole process.
pub fn restart_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Anonymous memory of this process: resident, and not pages of files.
pub fn anonymous_bytes() -> u64 {
    status_bytes("/proc/self/status", "RssAnon:")
}

/// A control group that counts memory, with the names its version has.
struct Group {
    directory: PathBuf,
    root: PathBuf,
    limit: &'static str,
    used: &'static str,
    cache: &'static str,
}

/// The group of a line of /proc/self/cgroup, `number:controllers:path`; of version 1 only that of memory.
fn group(line: &str) -> Option<Group> {
    let mut fields = line.splitn(3, ':');
    let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
    let (root, limit, used, cache) = match controllers {
        "" if number == "0" => (
            "/sys/fs/cgroup",
            "memory.max",
            "memory.current",
            "inactive_file",
        ),
        names if names.split(',').any(|name| name == "memory") => (
            "/sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
        _ => return None,
    };
    Some(Group {
        directory: Path::new(root).join(path.trim_start_matches('/')),
        root: root.into(),
        limit,
        used,
        cache,
    })
}

impl Group {
    /// The least that this group and those above it leave; none without a limit.
    fn left(&self) -> Option<u64> {
        let read = |path: PathBuf| -> Option<u64> {
            std::fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        let left = |directory: &Path| -> Option<u64> {
            let (limit, used) = (
                read(directory.join(self.limit))?,
                read(directory.join(self.used))?,
            );
            let stat = std::fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
            let cache = stat
                .lines()
                .find_map(|line| line.strip_prefix(self.cache)?.trim().parse().ok());
            Some(limit.saturating_sub(used.saturating_sub(cache.unwrap_or(0))))
        };
        // Inside a container the path may be that of the host: then only the root is there.
        let above = self
            .directory
            .ancestors()
            .take_while(|directory| directory.starts_with(&self.root));
        above.filter_map(left).min()
    }
}

/// Blocks of this size and more are mappings of their own, which go back to the system when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const OWN_MAPPING_BYTES: libc::c_int = 64 << 10;

/// So much free memory at the end of a heap goes back to the system. With the 128 KiB that glibc has by default every other
/// block that a thread frees does, and all processors are interrupted to forget its pages.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const TRIM_BYTES: libc::c_int = 2 << 20;

/// Keeps glibc from raising that size to 32 MiB as large blocks are freed: the holes that tensors then leave in its heap
/// made peaks of the same run differ by a tenth.
pub fn steady() {
    // Safety: a documented parameter with a value in its range; the allocator takes its own lock.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIM_BYTES);
    }
}

/// Returns memory that was freed to the system: blocks kept to be used again, and what the C library keeps.
pub fn give_back() {
    super::buffer::empty_store();
    // Safety: no arguments to get wrong; it only walks the allocator's own lists.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Code and constants of this library that are not resident yet and will be once it computes, at most.
pub fn code_left_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let own = code_left_bytes as *const () as u64;
    // Mappings as (path, holds this function, bytes not resident).
    let mut mappings: Vec<(&str, bool, u64)> = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let kib = || second.parse::<u64>().unwrap_or(0);
        match (first, mappings.last_mut()) {
            ("Size:", Some(mapping)) => mapping.2 = kib(),
            ("Rss:", Some(mapping)) => mapping.2 = mapping.2.saturating_sub(kib()),
            (range, _) if !range.ends_with(':') => {
                let mut ends = range
                    .split('-')
                    .map(|end| u64::from_str_radix(end, 16).unwrap_or(0));
                let (start, end) = (ends.next().unwrap_or(0), ends.next().unwrap_or(0));
                mappings.push((words.nth(3).unwrap_or(""), (start..end).contains(&own), 0));
            }
            _ => (),
        }
    }
    let path = mappings
        .iter()
        .find(|mapping| mapping.1)
        .map(|mapping| mapping.0);
    let of_library = mappings.iter().filter(|mapping| Some(mapping.0) == path);
    of_library.map(|mapping| mapping.2 * 1024).sum()
}
