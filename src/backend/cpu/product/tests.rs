//! Every kernel that runs here against sums in f64.

use super::*;

const GUARD: f32 = 12345.0;

/// Values of −1 to 1 that look random.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let value = |i: usize| {
        let hash = (i as u32 ^ seed)
            .wrapping_mul(0x9e37_79b9)
            .rotate_left(15)
            .wrapping_mul(0x85eb_ca6b);
        (hash >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(value).collect()
}

struct Case {
    side: Side,
    m: usize,
    terms: usize,
    outputs: usize,
    /// [m, terms]
    x: Vec<f32>,
    /// [outputs, terms] or, as it is, [terms, outputs]
    w: Vec<f32>,
}

impl Case {
    fn new(side: Side, m: usize, terms: usize, outputs: usize) -> Case {
        let x = values(m * terms, 1);
        let w = values(terms * outputs, 2);
        Case {
            side,
            m,
            terms,
            outputs,
            x,
            w,
        }
    }

    fn w(&self, term: usize, output: usize) -> f32 {
        match self.side {
            Side::Transposed => self.w[output * self.terms + term],
            Side::AsIs => self.w[term * self.outputs + output],
        }
    }

    fn columns(&self) -> usize {
        match self.side {
            Side::Transposed => self.terms,
            Side::AsIs => self.outputs,
        }
    }

    /// y of `product` from `y` on, and nothing written after it.
    fn run(&self, kernel: &Kernel, keep: bool, y: &[f32]) -> Vec<f32> {
        // The matrix is a span of a longer one, whose other rows would spoil the result.
        let columns = self.columns();
        let mut longer = vec![f32::NAN; columns];
        longer.extend(&self.w);
        longer.extend(vec![f32::NAN; columns]);
        let rows = 1..1 + self.w.len() / columns;
        let span = RowSpan {
            matrix: &Dense {
                values: &longer,
                columns,
            },
            rows,
        };
        let mut guarded = y.to_vec();
        guarded.extend([GUARD; 64]);
        let (result, guard) = guarded.split_at_mut(y.len());
        product(kernel, self.side, self.m, &self.x, &span, keep, result).unwrap();
        assert_eq!(guard, [GUARD; 64], "{}: written after the end", kernel.name);
        result.to_vec()
    }

    /// Σ x·w of an output, Σ |x|·|w|, and what rounding the factors to `precision` may change.
    fn expected(&self, precision: Precision, row: usize, output: usize) -> (f64, f64, f64) {
        let x = &self.x[row * self.terms..][..self.terms];
        let (mut sum, mut size, mut rounding) = (0.0, 0.0, 0.0);
        for first in (0..self.terms).step_by(DEPTH) {
            let block = first..(first + DEPTH).min(self.terms);
            let pairs = || {
                block
                    .clone()
                    .map(|i| (f64::from(x[i]), f64::from(self.w(i, output))))
            };
            let largest = pairs().fold((0.0f64, 0.0f64), |l, (x, w)| {
                (l.0.max(x.abs()), l.1.max(w.abs()))
            });
            for (x, w) in pairs() {
                sum += x * w;
                size += (x * w).abs();
                // Half of the last place of each factor at most: eight bits in bf16, a 127th of the largest in int8.
                let (dx, dw) = match precision {
                    Precision::F32 => (0.0, 0.0),
                    Precision::Bf16 => (x.abs() / 256.0, w.abs() / 256.0),
                    Precision::Int8 => (largest.0 / 127.0 / 2.0, largest.1 / 127.0 / 2.0),
                };
                rounding += x.abs() * dw + w.abs() * dx + dx * dw;
            }
        }
        (sum, size, rounding)
    }

    fn check(&self, kernel: &Kernel) {
        let old = values(self.m * self.outputs, 3);
        for keep in [false, true] {
            let y = self.run(kernel, keep, &old);
            for (at, (y, old)) in y.iter().zip(&old).enumerate() {
                let (sum, size, rounding) =
                    self.expected(kernel.precision, at / self.outputs, at % self.outputs);
                let old = if keep { f64::from(*old) } else { 0.0 };
                let error = (f64::from(*y) - old - sum).abs();
                let bound = 1.001 * rounding + 1e-6 * (size + old.abs());
                assert!(
                    error <= bound,
                    "{} {:?} {}x{}x{} keep {keep} at {at}: {y} is {error:.1e} from {}, more than {bound:.1e}",
                    kernel.name,
                    self.side,
                    self.m,
                    self.terms,
                    self.outputs,
                    old + sum,
                );
            }
        }
    }
}

fn each_kernel_and_side(mut check: impl FnMut(&'static Kernel, Side)) {
    for kernel in Kernel::all() {
        for side in [Side::Transposed, Side::AsIs] {
            check(kernel, side);
        }
    }
}

#[test]
fn every_kernel_multiplies_at_every_number_of_rows_and_columns() {
    each_kernel_and_side(|kernel, side| {
        for m in 1..=2 * kernel.rows + 1 {
            Case::new(side, m, 9, kernel.columns + 1).check(kernel);
        }
        for outputs in 1..=2 * kernel.columns + 1 {
            Case::new(side, kernel.rows + 1, 9, outputs).check(kernel);
        }
    });
}

#[test]
fn every_kernel_multiplies_at_every_length_of_the_sum() {
    each_kernel_and_side(|kernel, side| {
        for terms in 1..=2 * DEPTH + 9 {
            Case::new(side, 3, terms, 5).check(kernel);
        }
    });
}

#[test]
fn every_kernel_multiplies_where_rows_columns_and_terms_are_all_odd() {
    each_kernel_and_side(|kernel, side| {
        for (m, terms, outputs) in [
            (1, 1, 1),
            (7, 33, 257),
            (33, 257, 7),
            (29, 129, 65),
            (17, 320, 31),
        ] {
            Case::new(side, m, terms, outputs).check(kernel);
        }
    });
}

#[test]
fn a_matrix_in_several_pieces_gives_one_product() {
    each_kernel_and_side(|kernel, side| {
        let (terms, outputs) = match side {
            Side::Transposed => (67, PANEL / 67 + 100),
            // Values of one byte, so that int8 has two pieces as well.
            Side::AsIs => (PIECE / 333 + 100, 333),
        };
        Case::new(side, 2, terms, outputs).check(kernel);
    });
}

#[test]
fn an_operand_that_is_not_finite_makes_every_output_it_touches_not_finite() {
    each_kernel_and_side(|kernel, side| {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let (m, terms, outputs) = (kernel.rows + 3, 100, kernel.columns + 3);
            let clean = Case::new(side, m, terms, outputs);
            let (row, output, term) = (kernel.rows + 1, kernel.columns, 77);
            let finite = clean.run(kernel, false, &vec![0.0; m * outputs]);
            for in_x in [true, false] {
                let mut case = Case::new(side, m, terms, outputs);
                match (in_x, side) {
                    (true, _) => case.x[row * terms + term] = bad,
                    (false, Side::Transposed) => case.w[output * terms + term] = bad,
                    (false, Side::AsIs) => case.w[term * outputs + output] = bad,
                }
                let y = case.run(kernel, false, &vec![0.0; m * outputs]);
                for (at, (y, finite)) in y.iter().zip(&finite).enumerate() {
                    let touched = if in_x {
                        at / outputs == row
                    } else {
                        at % outputs == output
                    };
                    match touched {
                        true => assert!(!y.is_finite(), "{}: {bad} gave {y} at {at}", kernel.name),
                        false => assert_eq!(y, finite, "{}: {bad} changed {at}", kernel.name),
                    }
                }
            }
        }
    });
}

#[test]
fn an_infinite_value_times_zero_is_not_a_number() {
    each_kernel_and_side(|kernel, side| {
        let mut case = Case::new(side, 2, 70, 3);
        case.w.fill(0.0);
        case.x[70 + 5] = f32::INFINITY;
        let y = case.run(kernel, true, &[1.0; 6]);
        assert_eq!(y[..3], [1.0; 3], "{}", kernel.name);
        assert!(y[3..].iter().all(|y| y.is_nan()), "{}: {y:?}", kernel.name);
    });
}

#[test]
fn values_that_fill_the_range_neither_overflow_nor_vanish() {
    each_kernel_and_side(|kernel, side| {
        for (x, w) in [(1.0, 1.0), (1e30, 1e-30), (-3e-20, 1e18), (1e18, -1e18)] {
            let mut case = Case::new(side, 3, 128, 13);
            case.x.fill(x);
            case.w.fill(w);
            case.check(kernel);
        }
    });
}
