//! Limits on rejected events.

use std::fmt;

use super::settings::DeadLetterSettings;

/// Counts rejected events, over a window and in a row. The caller pauses when a limit is exceeded, and calls
/// [`RejectLimits::reset`] when it resumes.
#[derive(Debug, Clone)]
pub struct RejectLimits {
    max_ratio: f64,
    max_consecutive: usize,
    /// Ring buffer of the last events, the oldest at `cursor`; true for a rejected one.
    recent: Vec<bool>,
    cursor: usize,
    /// Whether `recent` has been filled once. Before, the ratio is over too few events and not checked.
    filled: bool,
    rejected: usize,
    consecutive: usize,
}

/// The limit that was exceeded.
#[derive(Debug, Clone, PartialEq)]
pub enum LimitExceeded {
    /// `dead_letters.max_consecutive` was reached.
    Consecutive {
        /// Rejected events in a row.
        events: usize,
    },
    /// `dead_letters.max_ratio` was exceeded.
    Ratio {
        /// Rejected events in the window.
        rejected: usize,
        /// Size of the window, `dead_letters.ratio_over`.
        events: usize,
        /// The configured ratio.
        max_ratio: f64,
    },
}

// === impl RejectLimits ===

impl RejectLimits {
    /// Takes the limits of section `dead_letters`.
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

    /// Counts an event that was decoded.
    pub fn accepted(&mut self) {
        self.consecutive = 0;
        self.note(false);
    }

    /// Counts a rejected event; returns the limit that it exceeds.
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

    /// Starts the counts again, after somebody has looked at the dead letters and resumed reading.
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
