//! Products with frozen weights in both directions, and unpacking alone.

use std::hint::black_box;

use rayon::prelude::*;

use amv_train::backend::Bytes;
use amv_train::backend::cpu::product::{Kernel, Precision, Side, product};
use amv_train::error::Result;
use amv_train::quant::{Format, Weight};
use amv_train::tensor::Random;

use crate::table::{Bench, Cost};

const TOKENS: usize = 512;
/// Outputs and inputs of layers of SmolLM2-135M, and of a larger model.
const SHAPES: [[usize; 2]; 3] = [[1536, 576], [576, 576], [2048, 2048]];
/// F32: a matrix that is dense already.
const FORMATS: [Format; 4] = [Format::F32, Format::Q4_1, Format::Q8_0, Format::Q4K];

pub fn values(count: usize) -> Vec<f32> {
    let random = Random::new(count as u64);
    let values = (0..count as u64).map(|index| random.uniform(index) - 0.5);
    values.collect()
}

/// A frozen matrix of random values.
pub fn weight(format: Format, shape: [usize; 2]) -> Result<Weight> {
    // The same blocks over and over: packing K-quants takes long.
    let (blocks, elements) = (64, format.block_elements());
    let mut some = vec![0; blocks * format.block_bytes()];
    format.pack(&values(blocks * elements), &mut some)?;
    let count = shape[0] * shape[1] / elements * format.block_bytes();
    let bytes: Vec<u8> = some.into_iter().cycle().take(count).collect();
    Weight::new(format, shape.into(), Bytes::copy_of(&bytes))
}

pub fn run(bench: &Bench) -> Result<()> {
    bench.section("product");
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        // A plain loop would take minutes, and nobody asks for it.
        if precision != Precision::F32 && !precision.in_hardware() {
            continue;
        }
        for format in FORMATS {
            for shape in SHAPES {
                // Where rows are no whole number of blocks, the matrix lies on its side.
                let [rows, columns] = match shape[1].is_multiple_of(format.block_elements()) {
                    true => shape,
                    false => [shape[1], shape[0]],
                };
                if columns.is_multiple_of(format.block_elements()) {
                    both_ways(bench, precision, format, [rows, columns])?;
                }
            }
        }
    }
    Ok(())
}

fn both_ways(
    bench: &Bench,
    precision: Precision,
    format: Format,
    [rows, columns]: [usize; 2],
) -> Result<()> {
    let kernel = Kernel::of(precision)?;
    let matrix = weight(format, [rows, columns])?;
    let cost = Cost {
        precision,
        bytes: (4 * TOKENS * (rows + columns) + matrix.bytes().len()) as f64,
        ..Cost::product(TOKENS, rows, columns)
    };
    for (side, name, terms, outputs) in [
        (Side::Transposed, "x·Wᵀ", columns, rows),
        (Side::AsIs, "dy·W", rows, columns),
    ] {
        let name = format!(
            "{name} {} {TOKENS}x{terms}x{outputs} {format}",
            precision.name()
        );
        let (x, mut y) = (values(TOKENS * terms), vec![0.0; TOKENS * outputs]);
        bench.row(&name, cost, || {
            product(kernel, side, TOKENS, &x, &matrix, false, &mut y)
        })?;
        black_box(&y);
    }
    Ok(())
}

/// Values that a thread unpacks at a time, as products do, into memory that stays in its cache.
const PANEL: usize = 16 << 10;

/// Floor: reading the packed bytes from memory and writing the values into a cache.
pub fn unpack(bench: &Bench) -> Result<()> {
    bench.section("unpack, GB/s of f32");
    for format in Format::ALL {
        let name = format!("unpack {format}");
        if !bench.wants(&name) {
            continue;
        }
        let (rows, columns) = (4096, 2048);
        let matrix = weight(format, [rows, columns])?;
        let at_once = PANEL / columns;
        let reading =
            |bytes: usize, from: usize| bytes as f64 / (bench.machine.gigabytes(from as f64) * 1e9);
        let (packed, values) = (matrix.bytes().len(), 4 * rows * columns);
        let floor = reading(packed, packed).max(reading(values, 4 * PANEL));
        bench.row_over(&name, (values as f64, "GB/s"), floor, || {
            (0..rows / at_once).into_par_iter().try_for_each_init(
                || vec![0.0; PANEL],
                |values, part| {
                    matrix.unpack_rows(part * at_once, values)?;
                    black_box(values);
                    Ok(())
                },
            )
        })?;
    }
    Ok(())
}
