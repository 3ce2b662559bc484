//! What the process occupies and the machine has, from /proc; zero where there is none.

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
