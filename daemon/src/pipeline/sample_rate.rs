//! How large a share of the events scorers are to pass on, so that the learner gets about a set number a second.

use ostar_connectors::samples::SeenEvents;

/// Measures how fast events come, by the offsets of their samples, and chooses the share.
#[derive(Debug)]
pub(crate) struct SampleRate {
    per_second: f64,
    share: f64,
    /// Where the current measurement began.
    since: Option<(SeenEvents, i64)>,
}

/// Shortest time that a rate is measured over.
const SHORTEST_MS: i64 = 2_000;
/// The share is raised when it could be this many times as large, and lowered as soon as it is too large: it must not
/// change back and forth.
const HYSTERESIS: f64 = 2.5;
/// 1 of a million events.
const SMALLEST: f64 = 1e-6;

impl SampleRate {
    /// `share` is what was announced last.
    pub(crate) fn new(per_second: u32, share: f64) -> Self {
        Self {
            per_second: f64::from(per_second),
            share,
            since: None,
        }
    }

    /// The share that is announced.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Events up to `seen` were scored by `scored_ms`. Called at borders of blocks.
    pub(crate) fn observe(&mut self, seen: &SeenEvents, scored_ms: i64) {
        let Some((before, since_ms)) = &self.since else {
            self.since = Some((seen.clone(), scored_ms));
            return;
        };
        let passed_ms = scored_ms - since_ms;
        if passed_ms < SHORTEST_MS {
            return;
        }
        let rate = seen.events_since(before) as f64 * 1_000.0 / passed_ms as f64;
        self.since = Some((seen.clone(), scored_ms));
        if rate <= 0.0 {
            return;
        }
        let fitting = (self.per_second / rate).min(1.0);
        let is_too_large = fitting < self.share;
        let is_too_small = fitting >= 1.0 || fitting >= HYSTERESIS * self.share;
        if (is_too_large || is_too_small) && self.share != fitting {
            // Powers of two: few different shares, and the events of a smaller one are among those of a larger one.
            self.share = fitting.log2().floor().exp2().clamp(SMALLEST, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of a stream with so many events a second, seen through the samples that the share lets pass.
    fn run(rate: &mut SampleRate, seconds: i64, events: i64) {
        let mut seen = SeenEvents::default();
        for second in 1..=seconds {
            for partition in 0..2 {
                // Offsets move by the number of events, whatever share of them is passed on.
                seen.advance(partition, second * events / 2, 1);
            }
            rate.observe(&seen, second * 1_000);
        }
    }

    #[test]
    fn the_share_follows_the_rate_and_does_not_change_back_and_forth() {
        let mut rate = SampleRate::new(5_000, 1.0);
        run(&mut rate, 10, 4_000);
        assert_eq!(rate.share(), 1.0);
        run(&mut rate, 10, 100_000);
        rate.since = None;
        run(&mut rate, 10, 100_000);
        assert_eq!(rate.share(), 1.0 / 32.0);
        for events in [80_000, 110_000, 150_000] {
            rate.since = None;
            run(&mut rate, 6, events);
            assert_eq!(rate.share(), 1.0 / 32.0, "{events}");
        }
        rate.since = None;
        run(&mut rate, 6, 1_000);
        assert_eq!(rate.share(), 1.0, "a quiet stream is passed on whole");
    }
}
