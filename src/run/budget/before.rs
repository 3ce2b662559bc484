//! What lies in memory besides what a plan can work out.

use crate::backend::memory;
use crate::exec::Measured;

/// What the heap of the JavaScript engine grows by while events of a run arrive: measured, up to 8 MiB in short runs.
const HOST_BYTES: u64 = if cfg!(feature = "node") { 12 << 20 } else { 0 };

/// What is resident when a run begins, and afterwards what it added.
pub struct Before {
    program: u64,
    anonymous: u64,
}

impl Before {
    pub fn run() -> Before {
        memory::steady();
        memory::restart_peak();
        Before {
            program: memory::resident_bytes() + memory::code_left_bytes() + HOST_BYTES,
            anonymous: memory::anonymous_bytes(),
        }
    }

    /// With tokenizer and samples in memory.
    pub fn with_data(&self) -> Measured {
        memory::give_back();
        Measured {
            program: self.program as usize,
            data: memory::anonymous_bytes().saturating_sub(self.anonymous) as usize,
            peak: memory::peak_bytes() as usize,
        }
    }
}
