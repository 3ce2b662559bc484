//! Sixteen f32 at a time in the registers of an instruction set, for loops whose sums the compiler would keep in memory.

pub use super::reduce::LANES;
#[cfg(not(target_arch = "aarch64"))]
use super::reduce::across;

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
#[cfg(not(target_arch = "aarch64"))]
#[derive(Clone, Copy)]
pub struct Plain([f32; LANES]);

#[cfg(not(target_arch = "aarch64"))]
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
        let mut sums = c.0;
        for ((sum, a), b) in sums.iter_mut().zip(self.0).zip(b.0) {
            *sum += a * b;
        }
        Plain(sums)
    }

    #[inline(always)]
    fn sum(self) -> f32 {
        across(self.0)
    }
}

/// A type of `$count` registers of `$width` values each. The operations are named, not given as closures: those would not
/// always be inlined.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! registers {
    (
        $(#[$doc:meta])* $name:ident: [$register:ty; $count:literal] of $width:literal, many: $many:literal,
        $splat:path, $load:path, $store:path, $mul_add:path, $sum:path
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name([$register; $count]);

        // Safety: loops are compiled for it, and call it, only where the processor has the instruction set. Sixteen values
        // lie behind every pointer.
        impl Lanes for $name {
            const MANY: bool = $many;

            #[inline(always)]
            fn splat(value: f32) -> $name {
                $name([unsafe { $splat(value) }; $count])
            }

            #[inline(always)]
            fn load(values: &[f32; LANES]) -> $name {
                let from = values.as_ptr();
                let mut loaded = Self::splat(0.0);
                for (i, register) in loaded.0.iter_mut().enumerate() {
                    *register = unsafe { $load(from.add(i * $width)) };
                }
                loaded
            }

            #[inline(always)]
            fn store(self, into: &mut [f32; LANES]) {
                let to = into.as_mut_ptr();
                for (i, register) in self.0.into_iter().enumerate() {
                    unsafe { $store(to.add(i * $width), register) };
                }
            }

            #[inline(always)]
            fn mul_add(self, b: $name, mut c: $name) -> $name {
                for ((c, b), a) in c.0.iter_mut().zip(b.0).zip(self.0) {
                    *c = unsafe { $mul_add(a, b, *c) };
                }
                c
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
        _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps, sum_of_one
    }
    registers! {
        Avx2: [__m256; 2] of 8, many: false,
        _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps, sum_of_two
    }

    #[inline(always)]
    unsafe fn sum_of_one([x]: [__m512; 1]) -> f32 {
        unsafe { _mm512_reduce_add_ps(x) }
    }

    #[inline(always)]
    unsafe fn sum_of_two([x, y]: [__m256; 2]) -> f32 {
        unsafe {
            let eight = _mm256_add_ps(x, y);
            let four = _mm_add_ps(
                _mm256_castps256_ps128(eight),
                _mm256_extractf128_ps::<1>(eight),
            );
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
        vdupq_n_f32, vld1q_f32, vst1q_f32, mul_add, sum_of_four
    }

    /// a·b + c, in the order that the instruction does not have.
    #[inline(always)]
    unsafe fn mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        unsafe { vfmaq_f32(c, a, b) }
    }

    #[inline(always)]
    unsafe fn sum_of_four([a, b, c, d]: [float32x4_t; 4]) -> f32 {
        unsafe { vaddvq_f32(vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d))) }
    }
}
#[cfg(not(target_arch = "aarch64"))]
pub use Plain as Baseline;
#[cfg(target_arch = "aarch64")]
pub use arm::Neon as Baseline;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::features::vectorised;

    vectorised! {
        /// a·b + c of the first `a.len()` lanes, and the sum of all of them.
        fn mul_add_and_sum(a: &[f32], b: &[f32], c: &[f32], into: &mut [f32]) -> f32 {
            let sums = L::load_part(a).mul_add(L::load_part(b), L::load_part(c));
            sums.store_part(into);
            sums.sum()
        }
    }

    #[test]
    fn the_registers_that_are_here_do_what_their_names_say() {
        for len in 0..=LANES {
            let values = |step: usize| (0..len).map(move |i| (i * step % 11) as f32 - 5.0);
            let [a, b, c] = [3, 5, 7].map(|step| values(step).collect::<Vec<_>>());
            let expected: Vec<f32> = (0..len).map(|i| a[i] * b[i] + c[i]).collect();
            let mut into = vec![9.0; len];
            let sum = mul_add_and_sum(&a, &b, &c, &mut into);
            assert_eq!(into, expected);
            assert_eq!(sum, expected.iter().sum::<f32>(), "{len}");
        }
    }
}
