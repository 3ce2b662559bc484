//! What the SDK and the command line call: options in, work done, results out.

mod base;
mod data;
mod describe;
mod identity;
mod log;
mod places;
mod resume;
mod room;
mod samples;
mod sampling;
mod saver;
mod session;
mod settings;
mod start;
mod train;
mod workspace;

pub use base::Package;
pub use data::{DataOptions, DataReport, data};
pub use describe::{devices, info, inspect, models};
pub use train::train;
