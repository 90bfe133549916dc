//! A classifier whose label proportions are followed through the stream.

use crate::{
    Result,
    proportions::{
        Probabilities, ProportionEstimate, ProportionEstimator, Tracker, TrackerSettings,
    },
};

/// How a classifier's predictions become published proportions.
#[derive(Debug)]
pub(crate) struct TrackedProportions {
    pub(crate) estimator: ProportionEstimator,
    pub(crate) tracker: Tracker,
    /// After the latest block; `None` before the first.
    pub(crate) estimate: Option<ProportionEstimate>,
}

impl TrackedProportions {
    pub(crate) fn new(estimator: ProportionEstimator, tracker: &TrackerSettings) -> Result<Self> {
        Ok(Self {
            estimator,
            tracker: Tracker::new(tracker)?,
            estimate: None,
        })
    }

    /// Takes in the predictions on one block of target rows.
    pub(crate) fn observe(&mut self, block: &Probabilities) -> Result<()> {
        let evidence = self.estimator.evidence(block, self.tracker.reference())?;
        self.estimate = Some(self.tracker.update(&evidence)?);
        Ok(())
    }

    /// Knows what `other` knows of the stream, whose predictions were its own so far.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.tracker.clone_from(&other.tracker);
        self.estimate.clone_from(&other.estimate);
    }
}
