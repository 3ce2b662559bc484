//! Where bytes live and how the machine is driven. Knows no operation names.

mod bytes;

pub use bytes::Bytes;
