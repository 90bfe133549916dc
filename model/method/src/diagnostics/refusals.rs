//! What follows from the guard's decisions, one after the other.

use serde::{Deserialize, Serialize};

use super::{Decision, GuardLimits};

/// What the learner does about a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Publish a snapshot of this state; it is the last good one now.
    Publish,
    /// Keep serving the last good snapshot.
    Keep,
    /// Keep serving it, and give its weights and optimiser back to the learner.
    Restore,
}

/// Counts refusals since the last state that was served or restored; part of the state that lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RefusalCount(u32);

// === impl RefusalCount ===

impl RefusalCount {
    /// Counts a decision and says what follows from it. After a restore, counting starts at 0: the
    /// restored weights get their chance.
    pub fn after(&mut self, decision: &Decision, limits: &GuardLimits) -> Action {
        let (count, action) = match decision {
            Decision::Serve => (0, Action::Publish),
            Decision::Refuse(_) if self.0 + 1 >= limits.refusals_before_restore => {
                (0, Action::Restore)
            }
            Decision::Refuse(_) => (self.0 + 1, Action::Keep),
        };
        self.0 = count;
        action
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Reason;

    #[test]
    fn the_third_refusal_in_a_row_restores_and_counting_starts_at_0() {
        let limits = GuardLimits::default();
        let refuse = Decision::Refuse(Reason::NonFinite {
            name: "loss".into(),
        });
        let mut count = RefusalCount::default();
        let mut after = |decision| count.after(decision, &limits);
        assert_eq!(after(&refuse), Action::Keep);
        assert_eq!(after(&refuse), Action::Keep);
        assert_eq!(after(&Decision::Serve), Action::Publish);
        assert_eq!(after(&refuse), Action::Keep);
        assert_eq!(after(&refuse), Action::Keep);
        assert_eq!(after(&refuse), Action::Restore);
        assert_eq!(after(&refuse), Action::Keep);
        assert_eq!(count, RefusalCount(1));
    }
}
