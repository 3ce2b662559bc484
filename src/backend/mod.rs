//! Where bytes live and how the machine is driven. Knows no operation names.

mod bytes;
pub mod cpu;

pub use bytes::Bytes;
