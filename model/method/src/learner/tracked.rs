//! A classifier whose label proportions are followed through the stream.

use ostar_engine::Result;

use crate::proportions::{
    Evidence, LabelProportions, Probabilities, ProportionEstimate, ProportionEstimator, Tracker,
    TrackerSettings,
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
    /// As it was at the border of the open block, if rows of that were tracked before it was full.
    border: Option<Border>,
    /// Of the groups since the last block.
    open: BlockReadings,
}

/// Sums over the rows of a block.
#[derive(Debug, Default)]
struct BlockReadings {
    rows: f64,
    sums: Vec<f64>,
}

/// What a state keeps of the proportions: a start tracks the rows of an open block again.
#[derive(Debug, Clone)]
pub(crate) struct Border {
    pub(crate) tracker: Tracker,
    pub(crate) proportions: Option<LabelProportions>,
}

impl TrackedProportions {
    pub(crate) fn new(estimator: ProportionEstimator, tracker: &TrackerSettings) -> Result<Self> {
        Ok(Self {
            estimator,
            tracker: Tracker::new(tracker)?,
            proportions: None,
            evidence: None,
            estimate: None,
            border: None,
            open: BlockReadings::default(),
        })
    }

    /// Rows of a block that is not full are tracked next.
    pub(crate) fn open_block(&mut self) {
        self.border.get_or_insert_with(|| Border {
            tracker: self.tracker.clone(),
            proportions: self.proportions.clone(),
        });
    }

    /// As it was when the latest block was full.
    pub(crate) fn border(&self) -> Border {
        self.border.clone().unwrap_or_else(|| Border {
            tracker: self.tracker.clone(),
            proportions: self.proportions.clone(),
        })
    }

    /// Of [`TrackedProportions::border`].
    pub(crate) fn proportions_at_border(&self) -> Option<&LabelProportions> {
        let border = self.border.as_ref();
        border.map_or(self.proportions.as_ref(), |border| {
            border.proportions.as_ref()
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
        self.open.add(&evidence);
        self.evidence = Some(evidence);
        Ok(())
    }

    /// Mean readings of the block whose groups were tracked, which is forgotten: unbiased, and of its rows alone.
    pub(crate) fn take_block_readings(&mut self) -> Vec<f64> {
        let BlockReadings { rows, sums } = std::mem::take(&mut self.open);
        sums.into_iter().map(|sum| sum / rows).collect()
    }

    /// Makes the intervals of a block whose groups were all tracked.
    pub(crate) fn close_block(&mut self) {
        self.border = None;
        if let Some(evidence) = &self.evidence {
            self.estimate = Some(self.tracker.publish(evidence));
        }
    }

    /// Knows what `other` knows of the stream. For a classifier whose predictions were the same so far.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.tracker.clone_from(&other.tracker);
        self.proportions.clone_from(&other.proportions);
        self.estimate.clone_from(&other.estimate);
        self.border = None;
    }

    /// `proportions` are what was expected of the next group.
    pub(crate) fn restore(
        &mut self,
        tracker: Tracker,
        estimate: Option<ProportionEstimate>,
        proportions: Option<LabelProportions>,
    ) {
        self.tracker = tracker;
        self.proportions = proportions;
        self.estimate = estimate;
        self.border = None;
    }
}

impl BlockReadings {
    fn add(&mut self, evidence: &Evidence) {
        let means = &evidence.readings.mean;
        self.sums.resize(means.len(), 0.0);
        for (sum, mean) in self.sums.iter_mut().zip(means) {
            *sum += evidence.rows * mean;
        }
        self.rows += evidence.rows;
    }
}
