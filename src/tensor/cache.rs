//! Keys and values of the tokens seen so far, per attention layer, in buffers that are written once and grow in place.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::backend::Bytes;
use crate::error;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// The cache of one text. A token's key is copied into it once, however long the text becomes.
#[derive(Default)]
pub struct KvCache {
    /// Tokens to make room for at once.
    capacity: usize,
    layers: Mutex<HashMap<String, (Buffer, Buffer)>>,
}

impl KvCache {
    /// A cache with room for `tokens`; it still grows when there are more.
    pub fn with_capacity(tokens: usize) -> KvCache {
        KvCache {
            capacity: tokens,
            ..KvCache::default()
        }
    }

    /// Appends `k` and `v` [time, kv_heads, dim] to those of the layer `path`; returns all so far, uncopied.
    ///
    /// What was returned before must be gone: the buffers are written in place. An error otherwise.
    pub fn append(&self, path: &str, k: &Tensor, v: &Tensor) -> Result<(Tensor, Tensor)> {
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        if !layers.contains_key(path) {
            let room = |x: &Tensor| Buffer::new(self.capacity.max(x.shape()[0]) * row(x));
            layers.insert(path.to_owned(), (room(k), room(v)));
        }
        let Some((keys, values)) = layers.get_mut(path) else {
            return Err(error!(Internal, "{path} has no cache"));
        };
        Ok((keys.append(k)?, values.append(v)?))
    }
}

/// Values of one token.
fn row(x: &Tensor) -> usize {
    x.shape()[1..].iter().product()
}

/// A growing run of values of which the first `used` are set.
struct Buffer {
    bytes: Bytes,
    used: usize,
}

impl Buffer {
    fn new(values: usize) -> Buffer {
        Buffer {
            bytes: Bytes::from_f32(vec![0.0; values]),
            used: 0,
        }
    }

    fn append(&mut self, x: &Tensor) -> Result<Tensor> {
        let (new, end) = (x.values()?, self.used + x.shape().elements());
        if end * 4 > self.bytes.len() {
            let mut values = Vec::with_capacity(2 * end);
            values.extend_from_slice(&self.bytes.as_f32()?[..self.used]);
            values.resize(2 * end, 0.0);
            self.bytes = Bytes::from_f32(values);
        }
        let Some(values) = self.bytes.f32_mut() else {
            return Err(error!(
                Internal,
                "the keys and values of an earlier pass are still in use"
            ));
        };
        values[self.used..end].copy_from_slice(new);
        self.used = end;
        let mut axes = x.shape().to_vec();
        axes[0] = end / row(x);
        Tensor::of_bytes(self.bytes.slice(0..end * 4)?, Shape::from(axes.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [time, 1, 2] with the values from `first` on.
    fn tokens(first: usize, time: usize) -> Tensor {
        let values = (2 * first..2 * (first + time)).map(|i| i as f32);
        Tensor::new(values.collect(), [time, 1, 2]).unwrap()
    }

    #[test]
    fn what_is_appended_comes_back_in_order_also_past_the_capacity() {
        for capacity in [0, 4, 9, 100] {
            let cache = KvCache::with_capacity(capacity);
            let mut seen = 0;
            for time in [3, 1, 1, 4] {
                let x = tokens(seen, time);
                let (keys, values) = cache.append("a", &x, &x).unwrap();
                seen += time;
                assert_eq!(keys.values().unwrap(), tokens(0, seen).values().unwrap());
                assert_eq!(&values.shape()[..], [seen, 1, 2]);
            }
        }
    }

    #[test]
    fn a_buffer_with_room_is_written_in_place() {
        let cache = KvCache::with_capacity(10);
        let place = |x: Tensor| {
            cache
                .append("a", &x, &x)
                .unwrap()
                .0
                .values()
                .unwrap()
                .as_ptr()
        };
        assert_eq!(place(tokens(0, 3)), place(tokens(3, 7)));
    }

    #[test]
    fn layers_are_apart_and_views_in_use_are_not_overwritten() {
        let cache = KvCache::with_capacity(4);
        let held = cache.append("a", &tokens(0, 1), &tokens(0, 1)).unwrap();
        let other = cache.append("b", &tokens(5, 1), &tokens(5, 1)).unwrap();
        assert_eq!(other.0.values().unwrap(), [10.0, 11.0]);
        assert!(cache.append("a", &tokens(1, 1), &tokens(1, 1)).is_err());
        assert_eq!(held.0.values().unwrap(), [0.0, 1.0]);
    }
}
