//! The random number generator of the crate: seeded, serialisable, with the same output on every platform.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// Draws everything that is random in training. The distributions are implemented here, on raw 64-bit words, so that
/// a new sampling algorithm of a library cannot change the result of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generator {
    words: Xoshiro256PlusPlus,
}

impl Generator {
    /// The same seed gives the same sequence.
    pub fn new(seed: u64) -> Self {
        Self {
            words: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Uniform on [0, 1), with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.words.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform on 0..bound, without modulo bias (Lemire's method).
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "cannot draw a number below 0");
        let bound = bound as u64;
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.words.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as usize;
            }
        }
    }

    /// Standard normal, by the Box-Muller transform. The second number of the pair is discarded, so that the state is
    /// that of the word generator alone.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts `items` in random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_generator_continues_the_sequence() {
        let mut generator = Generator::new(7);
        generator.normal();
        let saved = serde_json::to_string(&generator).unwrap();
        let mut restored: Generator = serde_json::from_str(&saved).unwrap();
        for _ in 0..100 {
            assert_eq!(generator.below(1000), restored.below(1000));
        }
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut generator = Generator::new(1);
        let n = 200_000i32;
        let normals: Vec<f64> = (0..n).map(|_| generator.normal()).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(n);
        let variance = normals.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 0.01, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.01, "variance {variance}");
        let uniform = (0..n).map(|_| generator.uniform()).sum::<f64>() / f64::from(n);
        assert!((uniform - 0.5).abs() < 0.005, "uniform mean {uniform}");
        let mut counts = [0i32; 3];
        (0..n).for_each(|_| counts[generator.below(3)] += 1);
        assert!(
            counts.iter().all(|c| (c - n / 3).abs() < 1000),
            "{counts:?}"
        );
    }
}
