//! Working memory that is used again: large blocks go to a store when they are dropped and come from there. Fresh pages cost
//! a fault each, and the C library returns large blocks to the system at once.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Words of the smallest block that is worth keeping.
const LEAST: usize = 4 * 1024;
/// A block may be this part larger than what is asked for.
const SLACK: usize = 8;

/// A block of words, read as f32 or u32. Dropped, it goes back to the store.
pub struct Buffer {
    /// At least `len` words.
    words: Vec<u32>,
    len: usize,
}

impl Buffer {
    /// `len` values of any kind: whoever asks writes them all. NaN in builds for testing, so that one who does not is seen.
    pub fn stale(len: usize) -> Buffer {
        let mut buffer = Buffer {
            words: take(len),
            len,
        };
        if cfg!(debug_assertions) {
            buffer.fill(f32::NAN);
        }
        buffer
    }

    pub fn zeros(len: usize) -> Buffer {
        let mut buffer = Buffer {
            words: take(len),
            len,
        };
        buffer.words_mut().fill(0);
        buffer
    }

    pub fn words(&self) -> &[u32] {
        &self.words[..self.len]
    }

    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words[..self.len]
    }
}

impl From<Vec<u32>> for Buffer {
    fn from(words: Vec<u32>) -> Buffer {
        store(|store| store.grow(counted(words.capacity())));
        let len = words.len();
        Buffer { words, len }
    }
}

impl From<Vec<f32>> for Buffer {
    fn from(values: Vec<f32>) -> Buffer {
        Buffer::from(bytemuck::allocation::cast_vec::<f32, u32>(values))
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        bytemuck::cast_slice(self.words())
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.words_mut())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let words = std::mem::take(&mut self.words);
        if counted(words.capacity()) > 0 {
            let unwanted = store(|store| store.give(words));
            drop(unwanted);
        }
    }
}

/// Free blocks by capacity, each with the time it came; and how much is in use. Everything in words.
///
/// Live and free blocks together never exceed the most that was alive by more than one part in [`SLACK`], so the store adds
/// no more than that to a peak.
#[derive(Default)]
struct Store {
    free: BTreeMap<usize, Vec<(u64, Vec<u32>)>>,
    held: usize,
    live: usize,
    peak: usize,
    clock: u64,
}

static STORE: Mutex<Option<Store>> = Mutex::new(None);

/// Frees the blocks that nobody uses.
pub fn empty_store() {
    let free = store(|store| {
        store.held = 0;
        store.peak = store.live;
        std::mem::take(&mut store.free)
    });
    drop(free);
}

fn store<T>(with: impl FnOnce(&mut Store) -> T) -> T {
    let mut store = STORE.lock().unwrap_or_else(PoisonError::into_inner);
    with(store.get_or_insert_default())
}

/// What a block counts for: nothing when it is too small to be kept.
fn counted(capacity: usize) -> usize {
    if capacity < LEAST { 0 } else { capacity }
}

fn take(len: usize) -> Vec<u32> {
    if len < LEAST {
        return vec![0; len];
    }
    let (found, unwanted) = store(|store| store.take(len));
    drop(unwanted);
    match found {
        Some(mut words) => {
            if words.len() < len {
                words.resize(len, 0);
            }
            words
        }
        None => vec![0; len],
    }
}

impl Store {
    /// A free block of `len` words or a little more; and blocks to be freed when there is none and a new one must be made.
    fn take(&mut self, len: usize) -> (Option<Vec<u32>>, Vec<Vec<u32>>) {
        let fitting = self.free.range_mut(len..=len + len / SLACK).next();
        if let Some((&capacity, blocks)) = fitting {
            let block = blocks.pop();
            if blocks.is_empty() {
                self.free.remove(&capacity);
            }
            self.held -= capacity;
            self.grow(capacity);
            return (block.map(|(_, words)| words), Vec::new());
        }
        self.grow(len);
        (None, self.too_much())
    }

    /// Blocks to be freed so that the rest stays within its bound.
    fn too_much(&mut self) -> Vec<Vec<u32>> {
        let most = self.peak + self.peak / SLACK;
        let mut blocks = Vec::new();
        while self.live + self.held > most
            && let Some(block) = self.oldest()
        {
            blocks.push(block);
        }
        blocks
    }

    fn grow(&mut self, words: usize) {
        self.live += words;
        self.peak = self.peak.max(self.live);
    }

    fn oldest(&mut self) -> Option<Vec<u32>> {
        // Blocks of one size are used from the end, so the first of each is its oldest.
        let first = |(capacity, blocks): (&usize, &Vec<(u64, Vec<u32>)>)| (blocks[0].0, *capacity);
        let (_, capacity) = self.free.iter().map(first).min()?;
        let blocks = self.free.get_mut(&capacity)?;
        let (_, words) = blocks.remove(0);
        if blocks.is_empty() {
            self.free.remove(&capacity);
        }
        self.held -= capacity;
        Some(words)
    }

    /// Takes a block back; what is returned is to be freed.
    fn give(&mut self, words: Vec<u32>) -> Vec<Vec<u32>> {
        let capacity = words.capacity();
        self.live -= capacity;
        self.clock += 1;
        self.held += capacity;
        self.free
            .entry(capacity)
            .or_default()
            .push((self.clock, words));
        self.too_much()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(store: &mut Store, capacity: usize) {
        store.give(Vec::with_capacity(capacity));
    }

    #[test]
    fn a_block_that_fits_is_used_again_and_one_much_larger_is_not() {
        let mut store = Store::default();
        store.grow(110_000);
        given(&mut store, 10_000);
        assert!(store.take(8_000).0.is_none());
        let (block, _) = store.take(9_500);
        assert_eq!(block.unwrap().capacity(), 10_000);
        assert_eq!((store.held, store.live), (0, 118_000));
    }

    #[test]
    fn live_and_free_blocks_stay_near_the_peak() {
        let mut store = Store::default();
        store.grow(1);
        for len in (1..40).map(|step| step * 1_000) {
            let (_, unwanted) = store.take(len);
            let freed: usize = unwanted.iter().map(Vec::capacity).sum();
            assert!(freed <= len);
            given(&mut store, len);
            assert!(
                store.live + store.held <= store.peak + store.peak / SLACK,
                "{len}"
            );
        }
    }

    #[test]
    fn buffers_have_the_values_they_are_given() {
        let kept = Buffer::from(vec![1.5f32; LEAST]);
        drop(Buffer::from(vec![2.5f32; 2 * LEAST]));
        assert!(Buffer::zeros(2 * LEAST).iter().all(|&value| value == 0.0));
        assert!(Buffer::stale(2 * LEAST).iter().all(|value| value.is_nan()));
        assert_eq!((kept[7], kept.words()[7]), (1.5, 1.5f32.to_bits()));
    }
}
