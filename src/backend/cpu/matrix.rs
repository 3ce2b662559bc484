//! f32 matrix products c = α·c + a·b over strided views, by the `gemm` crate.

use gemm::Parallelism;

/// A matrix inside a slice: element (row, column) is `values[row * row_stride + column * column_stride]`.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub values: &'a [f32],
    pub row_stride: usize,
    pub column_stride: usize,
}

impl<'a> View<'a> {
    /// Rows of `columns` values one after another.
    pub fn rows(values: &'a [f32], columns: usize) -> View<'a> {
        View {
            values,
            row_stride: columns,
            column_stride: 1,
        }
    }

    pub fn transposed(self) -> View<'a> {
        View {
            values: self.values,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    fn holds(&self, rows: usize, columns: usize) -> bool {
        rows == 0
            || columns == 0
            || (rows - 1) * self.row_stride + (columns - 1) * self.column_stride < self.values.len()
    }
}

/// c[m, n] = `keep`·c + `scale`·a[m, k]·b[k, n]; c has rows of length `c_stride`. With `keep` 0 the old c is not read.
/// Uses every thread of the current rayon pool when the product is large, one when called from `for_rows`.
#[allow(clippy::too_many_arguments)]
pub fn matmul(
    (m, n, k): (usize, usize, usize),
    scale: f32,
    a: View,
    b: View,
    keep: f32,
    c: &mut [f32],
    c_stride: usize,
    threads: usize,
) {
    assert!(
        a.holds(m, k) && b.holds(k, n),
        "matmul: an operand is too short for {m}x{k}x{n}"
    );
    assert!(
        m == 0 || n == 0 || (m - 1) * c_stride + n <= c.len(),
        "matmul: the result is too short for {m}x{n}"
    );
    let parallelism = match threads {
        1 => Parallelism::None,
        _ => Parallelism::Rayon(threads),
    };
    // Safety: the asserts above keep every element the product touches inside its slice; c is borrowed mutably, so it
    // overlaps neither operand.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            c_stride as isize,
            keep != 0.0,
            a.values.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.values.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            keep,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_scale_and_kept_values_follow_the_formula() {
        let (m, n, k) = (3, 5, 7);
        let a: Vec<f32> = (0..m * k).map(|i| (i % 11) as f32 - 5.0).collect();
        let b: Vec<f32> = (0..n * k).map(|i| (i % 7) as f32 - 3.0).collect();
        let mut c = vec![1.0; m * 8];
        matmul(
            (m, n, k),
            2.0,
            View::rows(&a, k),
            View::rows(&b, k).transposed(),
            3.0,
            &mut c,
            8,
            1,
        );
        for i in 0..m {
            for j in 0..n {
                let dot: f32 = (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum();
                assert_eq!(c[i * 8 + j], 3.0 + 2.0 * dot);
            }
            assert_eq!(c[i * 8 + n..(i + 1) * 8], [1.0; 3], "padding is left alone");
        }
    }
}
