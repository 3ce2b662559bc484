//! The CPU: matrix products and loops over rows, on the threads of the pool that runs the caller.

mod machine;
mod matrix;
mod rows;

pub use machine::{cores, features, name};
pub use matrix::{View, matmul};
pub use rows::{for_items, for_rows};
