//! When labels are asked whether the order of the bundle's classes is the right one.

use std::collections::VecDeque;

use ostar_engine::{Result, Rows};
use serde::{Deserialize, Serialize};

use super::measures::Joined;
use crate::{
    Candidate,
    diagnostics::{OrderCheck, check_class_order},
};

/// Labels before the first look. Each further look is at twice as many.
const FIRST_LOOK: u64 = 200;
/// Labels at the last look.
const LAST_LOOK: u64 = 12_800;
/// Most bytes of probabilities that a look is at: with very many classes those of the newest labels.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct OrderLooks {
    /// Labels at which the next look is due.
    next: u64,
}

impl Default for OrderLooks {
    fn default() -> Self {
        Self { next: FIRST_LOOK }
    }
}

impl OrderLooks {
    /// Whether a look is due after so many labels. If it is, it is taken.
    pub(super) fn is_due(&mut self, labels: u64) -> bool {
        if labels < self.next {
            return false;
        }
        while self.next <= labels && self.next <= LAST_LOOK {
            self.next *= 2;
        }
        if self.next > LAST_LOOK {
            self.end();
        }
        true
    }

    /// Nothing is left to look for.
    pub(super) fn end(&mut self) {
        self.next = u64::MAX;
    }
}

/// What the newest labels say; `None` without labels.
pub(super) fn check(labels: &VecDeque<Joined>, classes: usize) -> Result<Option<OrderCheck>> {
    let most = (MOST_BYTES / (classes * size_of::<f32>()).max(1)).max(FIRST_LOOK as usize);
    let newest = labels.range(labels.len().saturating_sub(most)..);
    let (mut known, mut probabilities) = (Vec::new(), Vec::new());
    for joined in newest {
        known.push(joined.class);
        probabilities.extend_from_slice(joined.by(Candidate::Frozen as usize));
    }
    if known.is_empty() {
        return Ok(None);
    }
    let rows = Rows::new(&probabilities[..], classes)?;
    check_class_order(rows, &known).map(Some)
}
