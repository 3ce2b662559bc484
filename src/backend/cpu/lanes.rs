//! Sixteen f32 at a time in the registers of an instruction set, for loops whose sums the compiler would keep in memory.

use super::reduce::across;

/// How many values a [`Lanes`] has.
pub const LANES: usize = 16;

/// Sixteen values. [`vectorised!`](super::vectorised) names the implementation a loop is compiled for `L`.
pub trait Lanes: Copy {
    /// Whether there is room for 24 of them in registers; else for six.
    const MANY: bool;

    fn splat(value: f32) -> Self;

    fn load(values: &[f32; LANES]) -> Self;

    fn store(self, into: &mut [f32; LANES]);

    /// self·b + c, rounded once where the instruction set can.
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// The sum of all, by halves.
    fn sum(self) -> f32;

    /// At most sixteen values, zeros after them.
    #[inline(always)]
    fn load_part(values: &[f32]) -> Self {
        match values.first_chunk() {
            Some(values) => Self::load(values),
            None => {
                let mut padded = [0.0; LANES];
                padded[..values.len()].copy_from_slice(values);
                Self::load(&padded)
            }
        }
    }

    /// As many as `into` has room for.
    #[inline(always)]
    fn store_part(self, into: &mut [f32]) {
        match into.first_chunk_mut() {
            Some(into) => self.store(into),
            None => {
                let mut values = [0.0; LANES];
                self.store(&mut values);
                into.copy_from_slice(&values[..into.len()]);
            }
        }
    }
}

/// In no registers in particular.
#[derive(Clone, Copy)]
pub struct Plain([f32; LANES]);

impl Lanes for Plain {
    const MANY: bool = false;

    #[inline(always)]
    fn splat(value: f32) -> Plain {
        Plain([value; LANES])
    }

    #[inline(always)]
    fn load(values: &[f32; LANES]) -> Plain {
        Plain(*values)
    }

    #[inline(always)]
    fn store(self, into: &mut [f32; LANES]) {
        *into = self.0;
    }

    #[inline(always)]
    fn mul_add(self, b: Plain, c: Plain) -> Plain {
        Plain(std::array::from_fn(|lane| {
            self.0[lane] * b.0[lane] + c.0[lane]
        }))
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        across(self.0)
    }
}

/// A type of `$count` registers of `$width` values each.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! registers {
    (
        $(#[$doc:meta])* $name:ident: [$register:ty; $count:literal] of $width:literal, many: $many:literal,
        $splat:expr, $load:expr, $store:expr, $mul_add:expr, $sum:expr
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name([$register; $count]);

        // Safety: loops are compiled for it, and call it, only where the processor has the instruction set. Sixteen values
        // lie behind every pointer.
        #[allow(clippy::redundant_closure_call)]
        impl Lanes for $name {
            const MANY: bool = $many;

            #[inline(always)]
            fn splat(value: f32) -> $name {
                $name([unsafe { $splat(value) }; $count])
            }

            #[inline(always)]
            fn load(values: &[f32; LANES]) -> $name {
                let from = values.as_ptr();
                $name(std::array::from_fn(|i| unsafe { $load(from.add(i * $width)) }))
            }

            #[inline(always)]
            fn store(self, into: &mut [f32; LANES]) {
                let to = into.as_mut_ptr();
                for (i, register) in self.0.into_iter().enumerate() {
                    unsafe { $store(to.add(i * $width), register) };
                }
            }

            #[inline(always)]
            fn mul_add(self, b: $name, c: $name) -> $name {
                $name(std::array::from_fn(|i| unsafe { $mul_add(self.0[i], b.0[i], c.0[i]) }))
            }

            #[inline(always)]
            fn sum(self) -> f32 {
                unsafe { $sum(self.0) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LANES, Lanes};
    use std::arch::x86_64::*;

    registers! {
        Avx512: [__m512; 1] of 16, many: true,
        |x| _mm512_set1_ps(x), |from| _mm512_loadu_ps(from), |to, x| _mm512_storeu_ps(to, x),
        |a, b, c| _mm512_fmadd_ps(a, b, c), |x: [__m512; 1]| _mm512_reduce_add_ps(x[0])
    }
    registers! {
        Avx2: [__m256; 2] of 8, many: false,
        |x| _mm256_set1_ps(x), |from| _mm256_loadu_ps(from), |to, x| _mm256_storeu_ps(to, x),
        |a, b, c| _mm256_fmadd_ps(a, b, c), |x: [__m256; 2]| {
            let eight = _mm256_add_ps(x[0], x[1]);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
}
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{LANES, Lanes};
    use std::arch::aarch64::*;

    registers! {
        Neon: [float32x4_t; 4] of 4, many: false,
        |x| vdupq_n_f32(x), |from| vld1q_f32(from), |to, x| vst1q_f32(to, x),
        |a, b, c| vfmaq_f32(c, a, b), |x: [float32x4_t; 4]| {
            vaddvq_f32(vaddq_f32(vaddq_f32(x[0], x[2]), vaddq_f32(x[1], x[3])))
        }
    }
}
#[cfg(not(target_arch = "aarch64"))]
pub use Plain as Baseline;
#[cfg(target_arch = "aarch64")]
pub use arm::Neon as Baseline;
