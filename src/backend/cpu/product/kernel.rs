//! The innermost loop of a product: a tile of the result, from packed operands. One for each instruction set.

use crate::backend::cpu::Feature;
use crate::error;
use crate::error::Result;

/// What the factors of a product are rounded to. Sums are f32 everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    F32,
    /// The upper 16 bits of f32, rounded to nearest even.
    Bf16,
    /// Whole numbers of ±127, with a factor for every row and 64 values of the sum.
    Int8,
}

impl Precision {
    /// Values of one row that lie together in 32 bits.
    pub fn group(self) -> usize {
        match self {
            Precision::F32 => 1,
            Precision::Bf16 => 2,
            Precision::Int8 => 4,
        }
    }

    /// Whether this processor has instructions for it beyond those of f32.
    pub fn in_hardware(self) -> bool {
        Kernel::all().any(|kernel| kernel.precision == self && !kernel.needs.is_empty())
    }

    /// int8 where the processor multiplies it, else f32. bf16 must be asked for: its instructions are slower than those
    /// of f32 on some processors that have them.
    pub fn fastest() -> Precision {
        match Precision::Int8.in_hardware() {
            true => Precision::Int8,
            false => Precision::F32,
        }
    }

    /// For products of activations with one another, beside weights that are multiplied in this: f32, or bf16 where that is
    /// finer than what the weights have and the processor has it.
    pub fn of_activations(self) -> Precision {
        match self != Precision::F32 && Precision::Bf16.in_hardware() {
            true => Precision::Bf16,
            false => Precision::F32,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
        }
    }
}

/// Terms of the sum that share the factors of [`Precision::Int8`] and lie together in packed operands.
pub const DEPTH: usize = 64;

/// Values of the largest tile of any kernel.
pub const MOST_TILE: usize = 16 * 32;

/// A way to compute tiles.
#[derive(Debug)]
pub struct Kernel {
    pub name: &'static str,
    pub precision: Precision,
    /// Most rows of a tile.
    pub rows: usize,
    /// Columns of a tile.
    pub columns: usize,
    /// Groups of a row that lie together: 2 for instructions that take more terms than a group has.
    pub together: usize,
    /// Whether the left operand in int8 has 128 added, for instructions that multiply unsigned by signed.
    pub unsigned_left: bool,
    pub(super) needs: &'static [Feature],
    pub(super) tile: unsafe fn(&Tile),
}

/// A tile c[rows, columns] = a·b, or c + a·b when `keep`. Everything lies in 32-bit groups of the sum's terms.
#[derive(Debug)]
pub struct Tile {
    pub rows: usize,
    /// Blocks of the sum, and groups in each.
    pub blocks: usize,
    pub steps: usize,
    /// [blocks, steps / together, rows, together]
    pub a: *const u32,
    /// [blocks, rows], int8 only.
    pub a_scales: *const f32,
    /// [steps / together, columns, together] for each block, `b_block` apart.
    pub b: *const u32,
    pub b_block: usize,
    /// [columns] for each block, `b_scales_block` apart; int8 only.
    pub b_scales: *const f32,
    /// What each sum starts from, laid out like `b_scales`: takes back what an unsigned left operand adds.
    pub b_sums: *const i32,
    pub b_scales_block: usize,
    /// Rows `c_stride` apart; all `columns` of the kernel are written.
    pub c: *mut f32,
    pub c_stride: usize,
    pub keep: bool,
}

impl Kernel {
    /// The kernels that run here, the best of each precision first.
    pub fn all() -> impl Iterator<Item = &'static Kernel> {
        Kernel::with(Feature::present)
    }

    /// Those that run where `has` is true of every feature they need.
    fn with(has: impl Fn(Feature) -> bool) -> impl Iterator<Item = &'static Kernel> {
        let tables: &[&[Kernel]] = &[
            #[cfg(target_arch = "x86_64")]
            super::avx512::KERNELS,
            #[cfg(target_arch = "x86_64")]
            super::avx2::KERNELS,
            #[cfg(target_arch = "aarch64")]
            super::neon::KERNELS,
            super::plain::KERNELS,
        ];
        let all: Vec<&'static Kernel> = tables.iter().flat_map(|table| table.iter()).collect();
        all.into_iter()
            .filter(move |kernel| kernel.needs.iter().all(|feature| has(*feature)))
    }

    /// The best kernel of f32, which every processor has.
    pub fn f32() -> &'static Kernel {
        use std::sync::OnceLock;
        static BEST: OnceLock<&Kernel> = OnceLock::new();
        let plain = &super::plain::KERNELS[0];
        let best = || Kernel::all().find(|kernel| kernel.precision == Precision::F32);
        BEST.get_or_init(|| best().unwrap_or(plain))
    }

    /// The best kernel of a precision.
    pub fn of(precision: Precision) -> Result<&'static Kernel> {
        use std::sync::OnceLock;
        static BEST: OnceLock<[Option<&'static Kernel>; 3]> = OnceLock::new();
        let best = BEST.get_or_init(|| {
            [Precision::F32, Precision::Bf16, Precision::Int8]
                .map(|precision| Kernel::all().find(|kernel| kernel.precision == precision))
        });
        best[precision as usize]
            .ok_or_else(|| error!(Internal, "no kernel multiplies in {}", precision.name()))
    }
}

/// Calls `$run::<ROWS>` with the tile's number of rows as a constant, up to 14.
macro_rules! by_rows {
    ($tile:expr, $run:ident: $($rows:literal)*) => {
        match $tile.rows {
            $($rows => $run::<$rows>($tile),)*
            rows => unreachable!("a tile of {rows} rows"),
        }
    };
}
pub(super) use by_rows;

#[cfg(test)]
mod tests {
    use super::*;
    use Feature::*;

    /// The names of the best kernels in f32, bf16 and int8 of a processor with these features.
    fn best(features: &[Feature]) -> [&'static str; 3] {
        [Precision::F32, Precision::Bf16, Precision::Int8].map(|precision| {
            let mut kernels = Kernel::with(|feature| features.contains(&feature));
            kernels
                .find(|kernel| kernel.precision == precision)
                .expect("a plain one at least")
                .name
        })
    }

    #[test]
    fn without_features_every_kernel_is_plain() {
        assert_eq!(best(&[]), ["plain f32", "plain bf16", "plain int8"]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_best_kernel_that_the_features_allow_is_taken() {
        assert_eq!(best(&[Avx2]), ["avx2 f32", "plain bf16", "plain int8"]);
        assert_eq!(
            best(&[Avx2, Avx512]),
            ["avx512 f32", "plain bf16", "plain int8"]
        );
        let all = [Avx2, Avx512, Avx512Bf16, Avx512Vnni];
        assert_eq!(best(&all), ["avx512 f32", "avx512_bf16", "avx512_vnni"]);
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn the_best_kernel_that_the_features_allow_is_taken() {
        assert_eq!(best(&[Neon]), ["neon f32", "plain bf16", "plain int8"]);
        assert_eq!(
            best(&[Neon, DotProd]),
            ["neon f32", "plain bf16", "dotprod"]
        );
        assert_eq!(
            best(&[Neon, DotProd, I8mm]),
            ["neon f32", "plain bf16", "i8mm"]
        );
        assert_eq!(
            best(&[Neon, DotProd, I8mm, Bf16]),
            ["neon f32", "bf16", "i8mm"]
        );
    }
}
