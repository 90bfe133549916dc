//! The ingest path as it would be without the gate: what `examples/block_cost.rs` measures the gate's cost against.

use super::{FrozenRows, Learner};
use crate::Result;

impl Learner {
    /// [`Learner::observe_scored`] without the gate: tracks, makes intervals, fills the window, and decides nothing.
    #[doc(hidden)]
    pub fn observe_ungated(&mut self, scores: FrozenRows<'_>) -> Result<()> {
        self.check_scores(scores)?;
        self.track_groups(scores)?;
        self.frozen.close_block();
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.keep(scores.latents(), &mut self.generator)?;
            adaptation.adapted.follow(&self.frozen);
        }
        self.blocks += 1;
        Ok(())
    }
}
