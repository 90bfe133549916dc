//! A classifier whose label proportions are followed through the stream.

use crate::{
    Result,
    proportions::{
        Evidence, LabelProportions, Probabilities, ProportionEstimate, ProportionEstimator,
        Tracker, TrackerSettings,
    },
};

/// How a classifier's predictions become published proportions.
///
/// Proportions follow groups of rows, which are smaller than blocks: with blocks of 500 events they came so late
/// on a stream that alternates every 1,000 that correction did harm. Intervals are made once a block.
#[derive(Debug)]
pub(crate) struct TrackedProportions {
    pub(crate) estimator: ProportionEstimator,
    pub(crate) tracker: Tracker,
    /// What is expected of the next group; `None` before the first.
    pub(crate) proportions: Option<LabelProportions>,
    /// Of the latest group; `None` after a restore.
    evidence: Option<Evidence>,
    /// After the latest block; `None` before the first.
    pub(crate) estimate: Option<ProportionEstimate>,
}

impl TrackedProportions {
    pub(crate) fn new(estimator: ProportionEstimator, tracker: &TrackerSettings) -> Result<Self> {
        Ok(Self {
            estimator,
            tracker: Tracker::new(tracker)?,
            proportions: None,
            evidence: None,
            estimate: None,
        })
    }

    /// Takes in the predictions on a group of target rows.
    pub(crate) fn track(
        &mut self,
        group: &Probabilities,
        reference: Option<&LabelProportions>,
    ) -> Result<()> {
        let evidence = self.estimator.evidence(group, reference)?;
        self.tracker.take_in(&evidence)?;
        self.proportions = Some(self.tracker.expected(&evidence));
        self.evidence = Some(evidence);
        Ok(())
    }

    /// Makes the intervals of a block whose groups were all tracked.
    pub(crate) fn close_block(&mut self) {
        if let Some(evidence) = &self.evidence {
            self.estimate = Some(self.tracker.publish(evidence));
        }
    }

    /// Knows what `other` knows of the stream. For a classifier whose predictions were the same so far.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.tracker.clone_from(&other.tracker);
        self.proportions.clone_from(&other.proportions);
        self.estimate.clone_from(&other.estimate);
    }

    pub(crate) fn restore(&mut self, tracker: Tracker, estimate: Option<ProportionEstimate>) {
        self.tracker = tracker;
        self.proportions = estimate
            .as_ref()
            .map(|estimate| estimate.proportions.clone());
        self.estimate = estimate;
    }
}
