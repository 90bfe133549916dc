//! The ingest path as it would be without the gate: what `examples/block_cost.rs` measures the gate's cost against.

use ostar_engine::Result;

use super::Learner;
use crate::frozen::FrozenRows;

impl Learner {
    /// [`Learner::close_block`] without the gate: makes intervals, fills the window, and decides nothing.
    #[doc(hidden)]
    pub fn close_block_ungated(&mut self, scores: FrozenRows<'_>) -> Result<()> {
        self.tracked.clear();
        self.frozen.close_block();
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.keep(scores.latents(), &mut self.generator)?;
            adaptation.adapted.follow(&self.frozen);
        }
        self.blocks += 1;
        Ok(())
    }
}
