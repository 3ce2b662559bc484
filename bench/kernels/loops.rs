//! Multiply-adds in registers, one loop for each instruction that products are made of.

use std::hint::black_box;

use amv_train::backend::cpu::Feature;
use amv_train::backend::cpu::product::Precision;

/// A loop of multiply-adds that wait for nothing but one another.
pub struct Loop {
    pub instruction: &'static str,
    pub precision: Precision,
    pub needs: &'static [Feature],
    /// Multiplications and additions of one step of the loop.
    pub operations: usize,
    pub run: unsafe fn(usize),
}

/// Sums that a loop keeps: as many as hide how long one multiply-add takes.
const SUMS: usize = 12;

/// The loop `$run`: `$step` of each sum with two factors.
macro_rules! multiply_adds {
    ($(#[$features:meta])? $run:ident: $zero:expr, $factor:expr, $step:expr) => {
        $(#[$features])?
        fn $run(steps: usize) {
            let mut sums = [$zero; SUMS];
            let (a, b) = black_box(($factor, $factor));
            for _ in 0..steps {
                for sum in &mut sums {
                    *sum = $step(*sum, a, b);
                }
            }
            black_box(sums);
        }
    };
}

/// The best of each precision first; the last one needs nothing.
pub static LOOPS: &[Loop] = &[
    #[cfg(target_arch = "x86_64")]
    x86::AVX512,
    #[cfg(target_arch = "x86_64")]
    x86::AVX512_BF16,
    #[cfg(target_arch = "x86_64")]
    x86::AVX512_VNNI,
    #[cfg(target_arch = "x86_64")]
    x86::AVX2,
    #[cfg(target_arch = "aarch64")]
    arm::NEON,
    #[cfg(target_arch = "aarch64")]
    arm::BF16,
    #[cfg(target_arch = "aarch64")]
    arm::I8MM,
    #[cfg(target_arch = "aarch64")]
    arm::DOTPROD,
    Loop {
        instruction: "plain f32",
        precision: Precision::F32,
        needs: &[],
        operations: SUMS * 2 * 4,
        run: plain,
    },
];

multiply_adds!(
    plain:
    [0.0f32; 4],
    [0.5f32; 4],
    |sum: [f32; 4], a: [f32; 4], b: [f32; 4]| {
        std::array::from_fn(|lane| sum[lane] * a[lane] + b[lane])
    }
);

/// The sum of all values, as fast as they can be read.
pub fn add_up(values: &[f32]) -> f32 {
    // Safety: only where the processor has what the function was compiled for.
    #[cfg(target_arch = "x86_64")]
    if Feature::Avx512.present() {
        return unsafe { x86::add_up_avx512(values) };
    } else if Feature::Avx2.present() {
        return unsafe { x86::add_up_avx2(values) };
    }
    add_lanes(values)
}

#[inline(always)]
fn add_lanes(values: &[f32]) -> f32 {
    let mut lanes = [0.0; 64];
    for values in values.as_chunks::<64>().0 {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += value;
        }
    }
    lanes.iter().sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    pub const AVX512: Loop = Loop {
        instruction: "vfmadd231ps zmm",
        precision: Precision::F32,
        needs: &[Feature::Avx512],
        operations: SUMS * 2 * 16,
        run: avx512,
    };
    pub const AVX512_BF16: Loop = Loop {
        instruction: "vdpbf16ps zmm",
        precision: Precision::Bf16,
        needs: &[Feature::Avx512, Feature::Avx512Bf16],
        operations: SUMS * 2 * 32,
        run: avx512_bf16,
    };
    pub const AVX512_VNNI: Loop = Loop {
        instruction: "vpdpbusd zmm",
        precision: Precision::Int8,
        needs: &[Feature::Avx512, Feature::Avx512Vnni],
        operations: SUMS * 2 * 64,
        run: avx512_vnni,
    };
    pub const AVX2: Loop = Loop {
        instruction: "vfmadd231ps ymm",
        precision: Precision::F32,
        needs: &[Feature::Avx2],
        operations: SUMS * 2 * 8,
        run: avx2,
    };

    multiply_adds!(#[target_feature(enable = "avx512f")]
        avx512:
        _mm512_setzero_ps(),
        _mm512_set1_ps(0.5),
        |sum, a, b| _mm512_fmadd_ps(a, b, sum)
    );
    multiply_adds!(#[target_feature(enable = "avx512f,avx512vnni")]
        avx512_vnni:
        _mm512_setzero_si512(),
        _mm512_set1_epi8(1),
        |sum, a, b| _mm512_dpbusd_epi32(sum, a, b)
    );
    multiply_adds!(#[target_feature(enable = "avx512f,avx512bf16")]
        avx512_bf16:
        _mm512_setzero_ps(),
        _mm512_set1_epi16(0x3f00),
        |sum, a, b| {
            // Safety: the same 512 bits under another name.
            let bf16 = |bits| unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) };
            _mm512_dpbf16_ps(sum, bf16(a), bf16(b))
        }
    );
    multiply_adds!(#[target_feature(enable = "avx2,fma")]
        avx2:
        _mm256_setzero_ps(),
        _mm256_set1_ps(0.5),
        |sum, a, b| _mm256_fmadd_ps(a, b, sum)
    );

    #[target_feature(enable = "avx512f")]
    pub fn add_up_avx512(values: &[f32]) -> f32 {
        add_lanes(values)
    }

    #[target_feature(enable = "avx2")]
    pub fn add_up_avx2(values: &[f32]) -> f32 {
        add_lanes(values)
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;
    use std::arch::asm;

    use super::*;

    pub const NEON: Loop = Loop {
        instruction: "fmla",
        precision: Precision::F32,
        needs: &[Feature::Neon],
        operations: SUMS * 2 * 4,
        run: neon,
    };
    pub const BF16: Loop = Loop {
        instruction: "bfmmla",
        precision: Precision::Bf16,
        needs: &[Feature::Neon, Feature::Bf16],
        operations: SUMS * 2 * 16,
        run: bf16,
    };
    pub const I8MM: Loop = Loop {
        instruction: "smmla",
        precision: Precision::Int8,
        needs: &[Feature::Neon, Feature::I8mm],
        operations: SUMS * 2 * 32,
        run: i8mm,
    };
    pub const DOTPROD: Loop = Loop {
        instruction: "sdot",
        precision: Precision::Int8,
        needs: &[Feature::Neon, Feature::DotProd],
        operations: SUMS * 2 * 16,
        run: dotprod,
    };

    /// An instruction that stable Rust has no name for, on three registers.
    macro_rules! instruction {
        ($text:literal) => {
            |mut sum: uint32x4_t, a: uint32x4_t, b: uint32x4_t| {
                // Safety: it touches registers alone; the processor has it where the loop runs.
                unsafe {
                    asm!($text, sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
                        options(pure, nomem, nostack, preserves_flags));
                }
                sum
            }
        };
    }

    multiply_adds!(#[target_feature(enable = "neon")]
        neon:
        vdupq_n_f32(0.0),
        vdupq_n_f32(0.5),
        |sum, a, b| vfmaq_f32(sum, a, b)
    );
    multiply_adds!(#[target_feature(enable = "neon,bf16")]
        bf16:
        vdupq_n_u32(0),
        vdupq_n_u32(0x3f00_3f00),
        instruction!("bfmmla {sum:v}.4s, {a:v}.8h, {b:v}.8h")
    );
    multiply_adds!(#[target_feature(enable = "neon,i8mm")]
        i8mm:
        vdupq_n_u32(0),
        vdupq_n_u32(0x0101_0101),
        instruction!("smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b")
    );
    multiply_adds!(#[target_feature(enable = "neon,dotprod")]
        dotprod:
        vdupq_n_u32(0),
        vdupq_n_u32(0x0101_0101),
        instruction!("sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b")
    );
}
