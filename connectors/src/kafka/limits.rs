//! How many rejected events are too many.

use std::fmt;

use super::settings::DeadLetterSettings;

/// Watches the share of rejected events and their runs. The caller stops at the first excess; [`RejectLimits::reset`]
/// goes with its resuming.
#[derive(Debug, Clone)]
pub struct RejectLimits {
    max_ratio: f64,
    max_consecutive: usize,
    /// The last events, oldest at `cursor`: was it rejected?
    recent: Vec<bool>,
    cursor: usize,
    /// Whether `recent` has been filled once: a ratio over fewer events means little.
    filled: bool,
    rejected: usize,
    consecutive: usize,
}

/// A limit was exceeded, and which.
#[derive(Debug, Clone, PartialEq)]
pub enum LimitExceeded {
    /// Too many in a row.
    Consecutive {
        /// So many, which is the limit.
        events: usize,
    },
    /// Too large a share.
    Ratio {
        /// Rejected events among the last ones.
        rejected: usize,
        /// How many the last ones are.
        events: usize,
        /// The limit.
        max_ratio: f64,
    },
}

// === impl RejectLimits ===

impl RejectLimits {
    /// Limits of the section `dead_letters`.
    pub fn new(settings: &DeadLetterSettings) -> Self {
        Self {
            max_ratio: settings.max_ratio,
            max_consecutive: settings.max_consecutive,
            recent: vec![false; settings.ratio_over.max(1)],
            cursor: 0,
            filled: false,
            rejected: 0,
            consecutive: 0,
        }
    }

    /// Takes note of a good event.
    pub fn accepted(&mut self) {
        self.consecutive = 0;
        self.note(false);
    }

    /// Takes note of a rejected event.
    pub fn rejected(&mut self) -> Option<LimitExceeded> {
        self.consecutive += 1;
        self.note(true);
        if self.max_consecutive > 0 && self.consecutive >= self.max_consecutive {
            return Some(LimitExceeded::Consecutive {
                events: self.consecutive,
            });
        }
        let events = self.recent.len();
        if self.filled && self.rejected as f64 > self.max_ratio * events as f64 {
            return Some(LimitExceeded::Ratio {
                rejected: self.rejected,
                events,
                max_ratio: self.max_ratio,
            });
        }
        None
    }

    /// Forgets what was seen: somebody has looked at it and said to go on.
    pub fn reset(&mut self) {
        self.recent.fill(false);
        self.cursor = 0;
        self.filled = false;
        self.rejected = 0;
        self.consecutive = 0;
    }

    fn note(&mut self, rejected: bool) {
        let oldest = &mut self.recent[self.cursor];
        self.rejected = self.rejected + usize::from(rejected) - usize::from(*oldest);
        *oldest = rejected;
        self.cursor += 1;
        if self.cursor == self.recent.len() {
            self.cursor = 0;
            self.filled = true;
        }
    }
}

// === impl LimitExceeded ===

impl fmt::Display for LimitExceeded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Consecutive { events } => write!(
                formatter,
                "{events} events in a row were rejected (dead_letters.max_consecutive)"
            ),
            Self::Ratio {
                rejected,
                events,
                max_ratio,
            } => write!(
                formatter,
                "{rejected} of the last {events} events were rejected, more than dead_letters.max_ratio {max_ratio} allows"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(max_ratio: f64, ratio_over: usize, max_consecutive: usize) -> RejectLimits {
        RejectLimits::new(&DeadLetterSettings {
            max_ratio,
            ratio_over,
            max_consecutive,
            ..DeadLetterSettings::default()
        })
    }

    #[test]
    fn a_run_of_rejected_events_exceeds_the_limit_and_a_good_one_ends_it() {
        let mut limits = limits(1.0, 100, 3);
        for _ in 0..10 {
            assert_eq!(limits.rejected(), None);
            assert_eq!(limits.rejected(), None);
            limits.accepted();
        }
        assert_eq!(limits.rejected(), None);
        assert_eq!(limits.rejected(), None);
        let exceeded = limits.rejected();
        assert_eq!(exceeded, Some(LimitExceeded::Consecutive { events: 3 }));
        limits.reset();
        assert_eq!(limits.rejected(), None);
    }

    #[test]
    fn the_ratio_is_taken_over_the_last_events_and_only_over_enough_of_them() {
        let mut limits = limits(0.2, 10, 0);
        for _ in 0..9 {
            assert_eq!(limits.rejected(), None, "fewer than ten events");
        }
        for _ in 0..10 {
            limits.accepted();
        }
        assert_eq!(limits.rejected(), None);
        assert_eq!(limits.rejected(), None);
        let exceeded = limits.rejected().unwrap();
        assert!(exceeded.to_string().starts_with("3 of the last 10 events"));
    }

    #[test]
    fn a_ratio_of_one_never_stops() {
        let mut limits = limits(1.0, 5, 0);
        assert!((0..100).all(|_| limits.rejected().is_none()));
    }
}
