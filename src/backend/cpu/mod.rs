//! The CPU: matrix products, loops over rows and the mathematics of a row, on the threads of the pool that runs the caller.

mod exp;
mod machine;
mod matrix;
mod reduce;
mod rows;

pub use exp::{exp, tanh};
pub use machine::{cores, features, name};
pub use matrix::{View, matmul};
pub use reduce::{dot, max, replace_and_sum, sum_of};
pub use rows::{for_items, for_rows};
