//! The threads a command computes on, and the working memory that is given back with them.

use crate::backend::{self, memory};
use crate::error;
use crate::error::Result;

/// More threads than this on each core only wait for one another: at 500, a step takes a minute instead of a second.
const MOST_PER_CORE: usize = 8;

/// Threads of their own, so that nothing else of the process waits for them.
pub struct Threads(rayon::ThreadPool);

impl Threads {
    /// So many threads; 0 asks for one on each core.
    pub fn start(threads: usize) -> Result<Threads> {
        let cores = backend::cpu::cores();
        let most = cores * MOST_PER_CORE;
        if threads > most {
            return Err(error!(
                Usage,
                "threads is {threads}, but this machine has {cores} cores"
            )
            .hint(format!("use at most {most}, or leave --threads out")));
        }
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(if threads == 0 { cores } else { threads })
            .thread_name(|index| format!("amv-train-{index}"))
            .build()
            .map_err(|cause| error!(Internal, "cannot start {threads} threads: {cause}"))?;
        Ok(Threads(pool))
    }

    pub fn count(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs `work` on one of the threads; what it does in parallel is shared among all.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.install(work)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        memory::give_back();
    }
}
