//! How many blocks there are in a week of the stream.

use serde::{Deserialize, Serialize};

const DAY_MS: i64 = 24 * 3_600 * 1_000;
/// One block every five minutes: what is assumed while events have no times.
const USUAL_BLOCKS: f64 = 2_016.0;
/// Blocks that the mean time is over, about.
const MOST_BLOCKS: f64 = 500.0;
/// Blocks without which their times say too little.
const FEWEST_BLOCKS: f64 = 10.0;

/// The mean time between blocks, by the times of their events: a replay gives the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pace {
    blocks: f64,
    mean_ms: f64,
    last_ms: Option<i64>,
}

impl Pace {
    /// A block is full whose newest event has this time.
    pub(super) fn note(&mut self, time_ms: i64) {
        let last = self.last_ms.replace(time_ms).unwrap_or(time_ms);
        if self.blocks > 0.0 {
            // One event with a wrong time must not look like years.
            let passed = time_ms.saturating_sub(last).clamp(0, DAY_MS) as f64;
            self.mean_ms += (passed - self.mean_ms) / self.blocks;
        }
        self.blocks = (self.blocks + 1.0).min(MOST_BLOCKS);
    }

    pub(super) fn blocks_per_week(&self) -> f64 {
        // Times that stand still say nothing.
        if self.blocks < FEWEST_BLOCKS || self.mean_ms <= 0.0 {
            return USUAL_BLOCKS;
        }
        7.0 * DAY_MS as f64 / self.mean_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_events_tell_the_pace_and_nothing_else_does() {
        let mut pace = Pace::default();
        for block in 0..100 {
            assert_eq!(
                pace.blocks_per_week() == USUAL_BLOCKS,
                block < 10,
                "{block}"
            );
            pace.note(60_000 * block);
        }
        let found = pace.blocks_per_week();
        assert!((found / 10_080.0 - 1.0).abs() < 1e-9, "{found}");
        let mut still = Pace::default();
        (0..100).for_each(|_| still.note(7));
        assert_eq!(still.blocks_per_week(), USUAL_BLOCKS);
        still.note(i64::MAX);
        assert!(still.blocks_per_week() >= 7.0);
    }
}
