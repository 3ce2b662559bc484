//! What each kernel of the CPU reaches, over the floor that this machine sets: its multiply-adds, or its reading of memory.
//!
//!     cargo bench --bench kernels [-- --quick] [--threads N] [WORD]
//!
//! WORD: only rows whose name has it. `--quick`: a tenth of the time for each row. The peaks are left in
//! target/bench/peaks.json for bench/step.mjs.

mod loops;
mod machine;
mod ops;
mod products;
mod table;

use std::time::Duration;

use amv_train::backend::cpu;
use amv_train::error::{Code, Error, Result};

use machine::Machine;
use table::Bench;

struct Options {
    threads: usize,
    budget: Duration,
    word: String,
}

fn main() -> Result<()> {
    let options = options()?;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .build()
        .map_err(|cause| Error::new(Code::Internal, cause.to_string()))?;
    pool.install(|| run(options))
}

fn run(options: Options) -> Result<()> {
    cpu::check_features()?;
    let machine = Machine::measure(options.budget);
    let features = cpu::features().join(" ");
    println!("{}, {} threads, {features}", cpu::name(), options.threads);
    machine.print();
    machine.save(options.threads)?;
    let bench = Bench {
        machine,
        budget: options.budget,
        word: options.word,
    };
    products::run(&bench)?;
    products::unpack(&bench)?;
    ops::run(&bench)
}

fn options() -> Result<Options> {
    let mut options = Options {
        threads: cpu::cores(),
        budget: Duration::from_millis(400),
        word: String::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo's own.
            "--bench" => {}
            "--quick" => options.budget = Duration::from_millis(40),
            "--threads" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                let wrong = || Error::new(Code::Usage, "--threads needs a whole number above 0");
                options.threads = number.filter(|&number| number > 0).ok_or_else(wrong)?;
            }
            word => options.word = word.to_owned(),
        }
    }
    Ok(options)
}
