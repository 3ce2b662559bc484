//! Points inside a save at which a test can end the process, as the system does when it kills it.
//! Builds without debug assertions, such as the published ones, have none of this.

/// A place that a test may have chosen; anywhere else, nothing.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_: &'static str) {}

#[cfg(debug_assertions)]
pub use armed::{kill_at, point};

#[cfg(debug_assertions)]
mod armed {
    use std::sync::{Mutex, PoisonError};

    /// Name of the point, and how many more times it is passed.
    static CHOSEN: Mutex<Option<(String, usize)>> = Mutex::new(None);

    /// From now on the process ends, without any clean-up, when it comes to the point `name` for the time number
    /// `time`, from 1.
    pub fn kill_at(name: &str, time: usize) {
        *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some((name.to_owned(), time));
    }

    /// A place that a test may have chosen; anywhere else, nothing.
    pub fn point(name: &'static str) {
        let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, left)) = chosen.as_mut().filter(|(chosen, _)| chosen == name) {
            *left -= 1;
            if *left == 0 {
                std::process::abort();
            }
        }
    }
}
