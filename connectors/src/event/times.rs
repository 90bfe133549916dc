//! Which times are believed. Labels and their deadlines follow the times of events, and one event of the year 2100 must
//! not move that clock.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use super::{EventSettings, Reject, RejectReason};
use crate::clock::now_ms;

/// Refuses times that are too far ahead. Past times are always taken: a replay has no others.
#[derive(Debug, Clone)]
pub struct TimeLimit {
    ahead_ms: i64,
    clock: fn() -> i64,
    /// The clock when it was last read: as long as nothing is ahead of that, there is no need to read it again.
    read_ms: Arc<AtomicI64>,
}

// === impl TimeLimit ===

impl TimeLimit {
    /// Times may be ahead by `events.max_time_ahead`.
    pub fn new(settings: &EventSettings) -> Self {
        Self::with_clock(settings, || now_ms() as i64)
    }

    pub(crate) fn with_clock(settings: &EventSettings, clock: fn() -> i64) -> Self {
        let ahead = settings.max_time_ahead.get().as_millis();
        Self {
            ahead_ms: i64::try_from(ahead).unwrap_or(i64::MAX),
            clock,
            read_ms: Arc::new(AtomicI64::new(0)),
        }
    }

    /// Compares the time that an event carries with that of its record, so that a replay refuses the same events. The
    /// record's may be the producer's own, and is compared with this machine's clock. All in milliseconds since 1970.
    pub fn check(&self, time_ms: Option<i64>, written_ms: Option<i64>) -> Result<(), Reject> {
        if let Some(written_ms) = written_ms {
            self.check_clock("the record's time stamp", written_ms)?;
        }
        match (time_ms, written_ms) {
            (Some(time_ms), Some(written_ms)) => {
                self.compare("the event's time", time_ms, "its record's", written_ms)
            }
            (Some(time_ms), None) => self.check_clock("the event's time", time_ms),
            (None, _) => Ok(()),
        }
    }

    fn check_clock(&self, what: &str, time_ms: i64) -> Result<(), Reject> {
        let read_ms = self.read_ms.load(Ordering::Relaxed);
        if time_ms <= read_ms.saturating_add(self.ahead_ms) {
            return Ok(());
        }
        let now_ms = (self.clock)();
        self.read_ms.store(now_ms, Ordering::Relaxed);
        self.compare(what, time_ms, "this machine's clock", now_ms)
    }

    fn compare(&self, what: &str, time_ms: i64, than: &str, limit_ms: i64) -> Result<(), Reject> {
        if time_ms <= limit_ms.saturating_add(self.ahead_ms) {
            return Ok(());
        }
        let seconds = time_ms.saturating_sub(limit_ms) / 1_000;
        let most = self.ahead_ms / 1_000;
        Err(Reject::new(
            RejectReason::BadTime,
            format!(
                "{what} is {time_ms}, {seconds} s later than {than} ({limit_ms}); expected at most {most} s \
                 (events.max_time_ahead)"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Period;

    const NOW: i64 = 1_800_000_000_000;
    const YEAR_2100: i64 = 4_102_444_800_000;

    fn limit() -> TimeLimit {
        let settings = EventSettings {
            max_time_ahead: Period::from_secs(300),
            ..EventSettings::default()
        };
        TimeLimit::with_clock(&settings, || NOW)
    }

    #[test]
    fn a_time_is_compared_with_its_record_and_the_record_with_the_clock() {
        let limit = limit();
        let is_taken = |time, written| limit.check(time, written).is_ok();
        assert!(is_taken(Some(NOW), Some(NOW)));
        assert!(is_taken(Some(NOW + 300_000), Some(NOW)), "allowed skew");
        assert!(!is_taken(Some(NOW + 300_001), Some(NOW)));
        assert!(!is_taken(Some(YEAR_2100), Some(NOW)));
        assert!(is_taken(Some(0), Some(NOW)), "an old event");
        assert!(is_taken(Some(i64::MIN), Some(NOW)));
        // Records of a producer that sets their time stamps, too.
        assert!(!is_taken(Some(YEAR_2100), Some(YEAR_2100)));
        assert!(!is_taken(Some(NOW), Some(YEAR_2100)));
        assert!(!is_taken(None, Some(YEAR_2100)));
        // Records without a time stamp.
        assert!(is_taken(Some(NOW), None));
        assert!(!is_taken(Some(YEAR_2100), None));
        assert!(is_taken(None, None));
        let refused = limit.check(Some(i64::MAX), Some(NOW)).unwrap_err();
        assert_eq!(refused.reason, RejectReason::BadTime);
        assert!(
            refused.detail.contains("events.max_time_ahead"),
            "{refused}"
        );
    }

    #[test]
    fn a_replay_years_later_refuses_what_was_refused_before() {
        let settings = EventSettings::default();
        let later = TimeLimit::with_clock(&settings, || YEAR_2100 + 1);
        assert!(later.check(Some(YEAR_2100), Some(NOW)).is_err());
        assert!(later.check(Some(NOW), Some(NOW)).is_ok());
    }
}
