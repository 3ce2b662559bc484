//! What this CPU is: its name, cores, and the features that matter for speed.

/// The model name the system gives, or the architecture.
pub fn name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        matches!(key.trim(), "model name" | "Hardware" | "CPU part")
            .then(|| value.trim().to_owned())
    });
    named.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// The instruction sets found at run time that products can use.
pub fn features() -> Vec<&'static str> {
    let mut found = Vec::new();
    macro_rules! look_for {
        ($detect:ident: $($feature:tt)*) => {
            $(if std::arch::$detect!($feature) { found.push($feature); })*
        };
    }
    #[cfg(target_arch = "x86_64")]
    look_for!(is_x86_feature_detected: "avx2" "fma" "f16c" "avx512f" "avx512bf16" "avx512vnni");
    #[cfg(target_arch = "aarch64")]
    look_for!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "i8mm" "bf16");
    found
}
