//! Where bytes live and how the machine is driven. Knows no operation names.

mod buffer;
mod bytes;
mod clock;
pub mod cpu;
pub mod disk;
mod lock;
pub mod memory;

pub use buffer::Buffer;
pub use bytes::Bytes;
pub use clock::local_time;
pub use lock::try_lock;

use crate::error;
use crate::error::Result;

/// The backend that `--backend` names, as it is called in events. Only `auto` chooses; a named one works or is refused.
///
/// The one place that answers to the environment: `AMV_CPU` names the instruction sets that may be used.
pub fn open(name: &str) -> Result<&'static str> {
    cpu::check_features()?;
    match name {
        "auto" | "cpu" => Ok("cpu"),
        "vulkan" | "opencl" => Err(error!(
            BackendUnavailable,
            "the backend {name} is not in this version"
        )
        .hint("use --backend cpu, or auto, which chooses it")),
        _ => Err(error!(Usage, "there is no backend {name}").hint("backends: auto, cpu")),
    }
}
