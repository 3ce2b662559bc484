//! The CPU: matrix products, loops over rows and the mathematics of a row, on the threads of the pool that runs the caller.

mod exp;
mod features;
pub(crate) mod lanes;
mod machine;
pub mod product;
mod reduce;
mod rows;

pub use exp::{exp, tanh};
pub use features::{Feature, check as check_features, features};
pub(crate) use features::{vectorise, vectorised};
pub use machine::{cores, name};
pub use product::strided::{Old, Room, Strips, View, matmul};
pub use reduce::{dot, max, replace_and_sum, sum_of};
pub use rows::{for_items, for_rows, for_rows_of_two};
