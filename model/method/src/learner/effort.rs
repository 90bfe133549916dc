//! How many alignment steps a block is worth.

use serde::{Deserialize, Serialize};

/// Blocks after a change that get more steps.
const BURST_BLOCKS: u32 = 6;
/// Steps of such a block, as a multiple of the usual.
const BURST_RATE: usize = 16;

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

    /// Steps to take after this block, of which `usual` are enough while nothing changes.
    pub(crate) fn spend(&mut self, usual: usize, refuted: bool, always: bool) -> usize {
        if !refuted {
            return if always { usual } else { 0 };
        }
        if self.burst == 0 {
            return usual;
        }
        self.burst -= 1;
        BURST_RATE * usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unmoved_stream_takes_no_steps_and_a_change_takes_many_at_first() {
        let mut effort = Effort::default();
        assert_eq!(effort.spend(5, false, false), 0);
        assert_eq!(effort.spend(5, false, true), 5);
        effort.begin();
        let blocks: Vec<usize> = (0..8).map(|_| effort.spend(5, true, false)).collect();
        assert_eq!(blocks, [80, 80, 80, 80, 80, 80, 5, 5]);
        effort.begin();
        effort.end();
        assert_eq!(effort.spend(5, true, false), 5);
    }
}
