//! How long labels take.

use serde::{Deserialize, Serialize};

/// Counts of labels by how long after their event they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelDelays {
    /// For each of [`LabelDelays::BOUNDS_MS`], and last for longer ones.
    pub counts: [u64; LabelDelays::BOUNDS_MS.len() + 1],
}

impl LabelDelays {
    /// Upper bounds in milliseconds: 1 s, 10 s, 1 min, 10 min, 1 h, 6 h, 1 day, 7 days.
    pub const BOUNDS_MS: [i64; 8] = [
        1_000,
        10_000,
        60_000,
        600_000,
        3_600_000,
        21_600_000,
        86_400_000,
        604_800_000,
    ];

    pub(super) fn add(&mut self, delay_ms: i64) {
        let longer = |bound: &i64| delay_ms > *bound;
        self.counts[Self::BOUNDS_MS.partition_point(longer)] += 1;
    }

    /// Labels in all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Upper bound of the delay of this share of labels, in milliseconds; `None` without labels, or beyond 7 days.
    pub fn quantile_ms(&self, share: f64) -> Option<i64> {
        let rank = share * self.total() as f64;
        let mut sum = 0;
        let place = self.counts.iter().position(|count| {
            sum += count;
            *count > 0 && sum as f64 >= rank
        })?;
        Self::BOUNDS_MS.get(place).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds() {
        let mut delays = LabelDelays::default();
        assert_eq!(delays.quantile_ms(0.5), None);
        for delay in [-5, 900, 1_001, 5_000, 700_000, i64::MAX] {
            delays.add(delay);
        }
        assert_eq!(delays.counts, [2, 2, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(delays.quantile_ms(0.5), Some(10_000));
        assert_eq!(delays.quantile_ms(0.8), Some(3_600_000));
        assert_eq!(delays.quantile_ms(1.0), None);
    }
}
