//! Rates per second from counters.

use std::{collections::VecDeque, time::Instant};

use crate::{proto::State, words::PerSecond};

/// Frames that a rate is taken over: few enough to follow changes, enough not to jump with every chunk.
const FRAMES: usize = 6;

/// The counts of the last frames.
#[derive(Debug, Default)]
pub(super) struct Rates {
    counts: VecDeque<(Instant, PerSecond)>,
}

impl Rates {
    /// Rates since the oldest frame that is remembered; `None` at the first frame.
    pub(super) fn observe(&mut self, now: Instant, state: &State) -> Option<PerSecond> {
        let stream = state.stream.as_ref();
        let events = stream.map_or(0, |stream| {
            stream.accepted + stream.rejected.values().sum::<u64>()
        });
        let counted = PerSecond {
            events: events as f64,
            steps: stream.map_or(0, |stream| stream.steps) as f64,
            requests: stream.map_or(0, |stream| stream.requests) as f64,
        };
        self.since_oldest(now, counted)
    }

    fn since_oldest(&mut self, now: Instant, counted: PerSecond) -> Option<PerSecond> {
        if self.counts.len() == FRAMES {
            self.counts.pop_front();
        }
        self.counts.push_back((now, counted));
        let (then, before) = self.counts.front()?;
        let seconds = now.duration_since(*then).as_secs_f64();
        (seconds > 0.0).then(|| PerSecond {
            events: (counted.events - before.events) / seconds,
            steps: (counted.steps - before.steps) / seconds,
            requests: (counted.requests - before.requests) / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rate_is_over_the_frames_that_are_remembered() {
        let mut rates = Rates::default();
        let start = Instant::now();
        let counted = |events: f64| PerSecond {
            events,
            ..PerSecond::default()
        };
        assert_eq!(rates.since_oldest(start, counted(100.0)), None);
        let mut newest = None;
        for second in 1..=10u32 {
            // Ten per second, and from the sixth second on twenty.
            let events = f64::from(second.min(5) * 10 + second.saturating_sub(5) * 20);
            let now = start + Duration::from_secs(second.into());
            newest = rates.since_oldest(now, counted(100.0 + events));
        }
        assert_eq!(newest, Some(counted(20.0)));
    }
}
