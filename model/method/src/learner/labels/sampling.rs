//! Which events wait for a label when not all can.

use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

/// Weight of the newest block in the mean time between events.
const NEWEST: f64 = 0.1;
/// Half as many are left out again once they would fill less than this share of the room.
const SPARE: f64 = 0.7;

/// An event waits if the hash of its id ends in so many zeros: a sample that does not depend on what is predicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sampling {
    zeros: u32,
    /// Mean milliseconds between events with an id; 0 before the second block.
    interval_ms: f64,
    /// Time of the newest event at the last block.
    last_ms: Option<i64>,
}

pub(super) fn hash(id: &str) -> u64 {
    XxHash64::oneshot(0, id.as_bytes())
}

impl Sampling {
    /// Follows the stream's rate: `ids` more events, the newest at `clock_ms`. Each waits `after_ms`, and there is room
    /// for `capacity`. Tells whether fewer may wait than before.
    pub(super) fn follow(
        &mut self,
        clock_ms: i64,
        ids: usize,
        after_ms: i64,
        capacity: usize,
    ) -> bool {
        let last = self.last_ms.replace(clock_ms);
        let (Some(last), true) = (last, ids > 0) else {
            return false;
        };
        let interval = clock_ms.saturating_sub(last) as f64 / ids as f64;
        self.interval_ms = if self.interval_ms > 0.0 {
            (1.0 - NEWEST) * self.interval_ms + NEWEST * interval
        } else {
            interval
        };
        let room = capacity.max(1) as f64;
        // Times that stand still say nothing of the rate.
        let needed = after_ms as f64 / self.interval_ms.max(1e-3) / room;
        let before = self.zeros;
        while needed > 2f64.powi(self.zeros as i32) && self.zeros < 40 && self.interval_ms > 0.0 {
            self.zeros += 1;
        }
        if self.zeros == before && before > 0 && needed < SPARE * 2f64.powi(before as i32 - 1) {
            self.zeros -= 1;
        }
        self.zeros > before
    }

    pub(super) fn admits(&self, id: &str) -> bool {
        self.zeros == 0 || hash(id).trailing_zeros() >= self.zeros
    }

    /// Of so many events one waits.
    pub(super) fn one_of(&self) -> u64 {
        1 << self.zeros
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_stream_is_thinned_to_the_room_and_a_slow_one_waits_whole_again() {
        let mut sampling = Sampling::default();
        let mut clock = 0;
        let mut run = |sampling: &mut Sampling, blocks: usize, span_ms: i64| {
            for _ in 0..blocks {
                clock += span_ms;
                sampling.follow(clock, 500, 1_800_000, 100_000);
            }
            sampling.one_of()
        };
        // 1,000 events a second for half an hour are 1.8 million.
        assert_eq!(run(&mut sampling, 5, 500), 32);
        let kept = (0..100_000).filter(|number| sampling.admits(&format!("event-{number}")));
        let kept = kept.count();
        assert!((2_900..3_350).contains(&kept), "{kept}");
        // 10 events a second need 18,000.
        assert_eq!(run(&mut sampling, 60, 50_000), 1);
    }

    #[test]
    fn a_stream_whose_times_stand_still_is_not_thinned() {
        let mut sampling = Sampling::default();
        for _ in 0..10 {
            assert!(!sampling.follow(7, 500, 1_800_000, 100));
        }
        assert_eq!(sampling.one_of(), 1);
    }
}
