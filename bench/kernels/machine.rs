//! What the machine can do at most on all threads: multiply-adds in registers, and reading memory.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use amv_train::backend::cpu::for_items;
use amv_train::backend::cpu::product::Precision;
use amv_train::error::{Error, Result};

use crate::loops::{LOOPS, Loop, add_up};
use crate::table::fastest;

pub struct Machine {
    /// Of f32, bf16 and int8, with the instruction.
    peaks: [(f64, &'static str); 3],
    /// Bytes that are read again and again, all threads together, and GB/s; the fewest first.
    reads: Vec<(usize, f64)>,
}

const STEPS: usize = 1 << 18;
/// From what the first caches hold to what none does.
const READS: [usize; 5] = [64 << 10, 1 << 20, 8 << 20, 32 << 20, 256 << 20];
/// Bytes read between two readings of the clock, so that waking the threads does not count.
const READ_AT_ONCE: usize = 16 << 20;

impl Machine {
    pub fn measure(budget: Duration) -> Machine {
        let precisions = [Precision::F32, Precision::Bf16, Precision::Int8];
        Machine {
            peaks: precisions.map(|precision| peak(precision, budget)),
            reads: READS
                .map(|bytes| (bytes, read(bytes, budget)))
                .into_iter()
                .collect(),
        }
    }

    pub fn gflops(&self, precision: Precision) -> f64 {
        self.peaks[precision as usize].0
    }

    /// GB/s at which `bytes` that are used again and again are read.
    pub fn gigabytes(&self, bytes: f64) -> f64 {
        let fits = |read: &&(usize, f64)| bytes <= read.0 as f64;
        let read = self.reads.iter().find(fits).or(self.reads.last());
        read.map_or(f64::INFINITY, |read| read.1)
    }

    pub fn print(&self) {
        for (precision, (gflops, instruction)) in ["f32", "bf16", "int8"].iter().zip(self.peaks) {
            println!("peak of {precision:<4} {gflops:>8.1} GFLOP/s ({instruction})");
        }
        for (bytes, rate) in &self.reads {
            println!("reading {:>6} KiB {rate:>8.1} GB/s", bytes >> 10);
        }
    }

    /// Leaves the peaks for bench/step.mjs.
    pub fn save(&self, threads: usize) -> Result<()> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench");
        let path = dir.join("peaks.json");
        let [f32, bf16, int8] = self.peaks.map(|(gflops, _)| gflops.round());
        let json = serde_json::json!({"threads": threads, "f32": f32, "bf16": bf16, "int8": int8});
        std::fs::create_dir_all(&dir)
            .and_then(|()| std::fs::write(&path, format!("{json}\n")))
            .map_err(|cause| Error::file("write", &path, &cause))
    }
}

/// The best loop of a precision that runs here. Without one its products are those of the plain loop.
fn peak(precision: Precision, budget: Duration) -> (f64, &'static str) {
    let here = |each: &&Loop| {
        let fits = each.precision == precision || each.needs.is_empty();
        fits && each.needs.iter().all(|feature| feature.present())
    };
    let plain = &LOOPS[LOOPS.len() - 1];
    let best = LOOPS.iter().find(here).unwrap_or(plain);
    // Safety: the processor has what the loop was compiled for.
    let work = || rayon::broadcast(|_| unsafe { (best.run)(STEPS) });
    let seconds = time(budget, work);
    let operations = STEPS * best.operations * rayon::current_num_threads();
    (operations as f64 / seconds / 1e9, best.instruction)
}

/// GB/s at which all threads read their share of `bytes`.
fn read(bytes: usize, budget: Duration) -> f64 {
    let values = vec![1.0f32; bytes / 4];
    let share = values.len() / rayon::current_num_threads();
    let times = READ_AT_ONCE.div_ceil(bytes);
    let work = || {
        let mut shares: Vec<_> = values
            .chunks_exact(share)
            .map(|values| (values, 0.0))
            .collect();
        for_items(&mut shares, share * times, |_, (values, sum)| {
            for _ in 0..times {
                *sum += add_up(black_box(values));
            }
        });
        black_box(shares);
    };
    (bytes * times) as f64 / time(budget, work) / 1e9
}

fn time<T>(budget: Duration, mut work: impl FnMut() -> T) -> f64 {
    let done = fastest(budget, || {
        work();
        Ok(())
    });
    done.expect("a loop without errors")
}
