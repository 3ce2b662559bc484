//! Counter-based random numbers: a value is a function of its key and index, so a replay draws the same ones.
//! Mixing: SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of random numbers addressed by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(mix(seed.wrapping_add(GOLDEN)))
    }

    /// An independent stream for `label`, e.g. a step, a sample or a position.
    pub fn fork(self, label: u64) -> Random {
        Random(mix(self.0 ^ mix(label.wrapping_add(GOLDEN))))
    }

    /// An independent stream for a name, e.g. the path of a layer (FNV-1a: the same on every machine).
    pub fn named(self, name: &str) -> Random {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        self.fork(hash)
    }

    pub fn bits(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// A value in [0, 1) with 24 random bits.
    pub fn uniform(self, index: u64) -> f32 {
        (self.bits(index) >> 40) as f32 / (1u64 << 24) as f32
    }

    /// A whole number in 0..limit, `limit` > 0.
    pub fn below(self, index: u64, limit: usize) -> usize {
        ((u128::from(self.bits(index)) * limit as u128) >> 64) as usize
    }

    /// The numbers 0..count in random order (Fisher-Yates).
    pub fn permutation(self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last as u64, last + 1));
        }
        order
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_values_fill_the_unit_interval_evenly() {
        let random = Random::new(1).named("layer").fork(2);
        let values: Vec<f32> = (0..100_000).map(|index| random.uniform(index)).collect();
        let mean: f32 = values.iter().sum::<f32>() / values.len() as f32;
        assert!((mean - 0.5).abs() < 5e-3, "mean {mean}");
        assert!(values.iter().all(|value| (0.0..1.0).contains(value)));
        let other = Random::new(1).named("layer").fork(3);
        assert_ne!(random.bits(0), other.bits(0));
    }

    #[test]
    fn a_permutation_holds_every_number_once() {
        let mut order = Random::new(7).permutation(257);
        assert_ne!(order[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        order.sort_unstable();
        assert_eq!(order, (0..257).collect::<Vec<_>>());
    }
}
