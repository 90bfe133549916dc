//! What the learner tells about itself.

use ostar_engine::engine::{ClassifierReport, CriticReport, MapReport};
use serde::Serialize;

use super::labels::LabelBlock;
use crate::{
    alarms::AlarmReport,
    diagnostics::{ClusterAssignment, Decision, Movement},
    gate::Verdict,
    proportions::{LabelProportions, ProportionEstimate},
};

/// What a block of target rows changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockReport {
    /// Rows that the block had.
    pub rows: usize,
    /// Proportions by the frozen classifier: right when only the shares moved.
    pub frozen: ProportionEstimate,
    /// Proportions by the adapted classifier; `None` for a black box.
    pub adapted: Option<ProportionEstimate>,
    /// Those of the candidate that the gate chose, for people and alarms.
    pub served: ProportionEstimate,
    /// What the gate decided, and why.
    pub verdict: Verdict,
    /// What labels did; `None` if none are read.
    pub labels: Option<LabelBlock>,
    /// What has left its usual level.
    pub alarms: AlarmReport,
    /// Alignment steps to take now: none while label shift explains the window, many after a change.
    pub steps_due: usize,
}

/// Scalars of one alignment step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReport {
    /// Steps taken, this one included.
    pub steps: u64,
    /// Losses of the last critic step.
    pub critic: CriticReport,
    /// Losses of the map step.
    pub map: MapReport,
    /// Losses of the classifier step.
    pub classifier: ClassifierReport,
    /// Weight of the transport cost in this step (lambda_OT).
    pub transport_weight: f64,
}

/// What a refresh measured and decided.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RefreshReport {
    /// Alignment steps taken before this refresh.
    pub steps: u64,
    /// p_N of the alignment from now on.
    pub alignment_proportions: LabelProportions,
    /// Weight of the transport cost until the next refresh (lambda_OT).
    pub transport_weight: f64,
    /// Sliced distance of target and source, the source reweighted by the frozen classifier's estimate and
    /// not moved: what label shift alone leaves unexplained.
    pub distance_before_map: f64,
    /// Sliced distance of mapped source and target: term (A) of the target-risk bound.
    pub distance_after_map: f64,
    /// What two halves of the target window differ by: the least a distance can be seen to be.
    pub noise_floor: f64,
    /// How far the map moves source rows, in all and by class.
    pub movement: Movement,
    /// Whether clusters of the window, found without a classifier, belong to the classes they are taken
    /// for.
    pub assignment: ClusterAssignment,
    /// Cross-entropy of the target classifier on mapped held-out source rows: term (C) of the bound.
    pub adapted_cross_entropy: f64,
    /// Cross-entropy of the frozen classifier on held-out source rows, weighted alike.
    pub frozen_cross_entropy: f64,
    /// Smallest singular value of the adapted classifier's confusion matrix.
    pub smallest_singular_value: f64,
    /// Largest input gradient of the target classifier on rows of the window.
    pub slope: f64,
    /// Whether classes were translated in this refresh.
    pub translated: bool,
    /// Whether this state may be served.
    pub decision: Decision,
    /// Whether the last good weights were restored.
    pub restored: bool,
}
