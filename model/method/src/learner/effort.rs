//! How many alignment steps a block is worth.

use serde::{Deserialize, Serialize};

/// Blocks after a change that get more steps.
const BURST_BLOCKS: u32 = 6;
/// Steps of such a block, as a multiple of the usual.
const BURST_RATE: usize = 16;

/// How many alignment steps a block may ask for. By default none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepPlan {
    /// Steps that are enough while nothing changes; many more are due after a change. 0 for none at all.
    pub usual: usize,
    /// Whether the usual steps are due while label shift explains the window, too.
    pub always: bool,
}

/// Steps follow evidence: none while label shift explains the window, many once it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Effort {
    /// Blocks of the burst that are left.
    burst: u32,
}

impl Effort {
    /// The classes began to look different.
    pub(crate) fn begin(&mut self) {
        self.burst = BURST_BLOCKS;
    }

    /// Label shift explains the window.
    pub(crate) fn end(&mut self) {
        self.burst = 0;
    }

    /// Steps to take after this block.
    pub(crate) fn spend(&mut self, plan: StepPlan, refuted: bool) -> usize {
        if !refuted {
            return if plan.always { plan.usual } else { 0 };
        }
        // Whoever pauses the steps after a change gets the burst later.
        if self.burst == 0 || plan.usual == 0 {
            return plan.usual;
        }
        self.burst -= 1;
        BURST_RATE * plan.usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmoved_stream_takes_no_steps_and_a_change_takes_many_at_first() {
        let mut effort = Effort::default();
        let plan = |usual| StepPlan {
            usual,
            always: false,
        };
        let always = StepPlan {
            usual: 5,
            always: true,
        };
        assert_eq!(effort.spend(plan(5), false), 0);
        assert_eq!(effort.spend(always, false), 5);
        effort.begin();
        assert_eq!(effort.spend(plan(0), true), 0, "paused");
        let blocks: Vec<usize> = (0..8).map(|_| effort.spend(plan(5), true)).collect();
        assert_eq!(blocks, [80, 80, 80, 80, 80, 80, 5, 5]);
        effort.begin();
        effort.end();
        assert_eq!(effort.spend(plan(5), true), 5);
    }
}
