//! Times a kernel and prints it beside its floor.

use std::time::{Duration, Instant};

use amv_train::backend::cpu::product::Precision;
use amv_train::error::Result;

use crate::machine::Machine;

/// What a kernel cannot do without.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Additions and multiplications that a peak counts.
    pub operations: f64,
    pub precision: Precision,
    /// Read and written once.
    pub bytes: f64,
}

impl Cost {
    /// Of a product of [m, k] by [k, n] in f32.
    pub fn product(m: usize, n: usize, k: usize) -> Cost {
        Cost {
            operations: 2.0 * (m * n * k) as f64,
            precision: Precision::F32,
            bytes: 4.0 * (m * k + k * n + m * n) as f64,
        }
    }

    /// Of reading and writing `values` numbers of f32 altogether.
    pub fn values(values: usize) -> Cost {
        Cost {
            operations: 0.0,
            precision: Precision::F32,
            bytes: 4.0 * values as f64,
        }
    }
}

pub struct Bench {
    pub machine: Machine,
    /// For each row.
    pub budget: Duration,
    /// Only rows with this in their name.
    pub word: String,
}

impl Bench {
    /// Starts a table.
    pub fn section(&self, name: &str) {
        println!("\n| {name:<46} |        measured |       time | over floor |");
        println!(
            "| {:-<46} | --------------: | ---------: | ---------: |",
            ""
        );
    }

    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.word)
    }

    /// Times `work` and prints what it reaches, in the unit that its floor is made of.
    pub fn row(&self, name: &str, cost: Cost, work: impl FnMut() -> Result<()>) -> Result<()> {
        let computing = cost.operations / (self.machine.gflops(cost.precision) * 1e9);
        let reading = cost.bytes / (self.machine.gigabytes(cost.bytes) * 1e9);
        let amount = match computing > reading {
            true => (cost.operations, "GFLOP/s"),
            false => (cost.bytes, "GB/s"),
        };
        self.row_over(name, amount, computing.max(reading), work)
    }

    /// The same of so many operations or bytes, over a floor in seconds.
    pub fn row_over(
        &self,
        name: &str,
        (amount, unit): (f64, &str),
        floor: f64,
        work: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        if !self.wants(name) {
            return Ok(());
        }
        let seconds = fastest(self.budget, work)?;
        let rate = amount / seconds / 1e9;
        let (ms, over) = (seconds * 1e3, seconds / floor);
        println!("| {name:<46} | {rate:>7.1} {unit:<7} | {ms:>7.2} ms | {over:>8.2} x |");
        Ok(())
    }
}

/// Seconds of the fastest of the calls that fit in `budget`, two at least after one that warms up.
pub fn fastest(budget: Duration, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let (start, mut calls, mut best) = (Instant::now(), 0, f64::INFINITY);
    while calls < 2 || start.elapsed() < budget {
        let call = Instant::now();
        work()?;
        best = best.min(call.elapsed().as_secs_f64());
        calls += 1;
    }
    Ok(best)
}
