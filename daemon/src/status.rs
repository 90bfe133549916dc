//! The learner's newest reports. The state is made of them.

use std::sync::Arc;

use ostar_engine::Device;
use ostar_method::{
    gate::GateState,
    learner::{
        BlockReport, EstimatedAccuracies, LabelRequest, Measurement, Picture, RefreshReport,
        SharesByLabels, StepReport,
    },
};

use crate::{config::Role, current::Version};

/// Sent by the learner on a watch channel after every block: readers see the newest and miss others if they are slow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Status {
    /// What this process does.
    pub(crate) role: Role,
    /// Where the learner works, or would work if this process learned.
    pub(crate) device: Device,
    /// Of the newest snapshot.
    pub(crate) version: Version,
    /// Events learned from, since the first start.
    pub(crate) events: u64,
    /// Alignment steps taken, since the first start.
    pub(crate) steps: u64,
    /// Steps left out because the learner was behind, since this start.
    pub(crate) skipped_steps: u64,
    /// By an order: no steps are taken.
    pub(crate) paused: bool,
    /// Another process learns; this one serves its newest checkpoint.
    pub(crate) standby: bool,
    /// When the learner last wrote to the state topic, in milliseconds since 1970, by its clock; `None` unless this process
    /// follows one.
    pub(crate) state_written_at_ms: Option<u64>,
    /// When the snapshot that is served was published, likewise.
    pub(crate) snapshot_at_ms: Option<u64>,
    /// Share of the events that scorers pass on to the learner; `None` unless this process follows one.
    pub(crate) sample_share: Option<f64>,
    /// Set by the demo: what happens in its stream now.
    pub(crate) act: Option<&'static str>,
    /// Set by the demo after the last event: no further status follows.
    pub(crate) ended: bool,
    /// When the newest block was full, in milliseconds since 1970. After a restart, that of the checkpoint.
    pub(crate) shares_at_ms: Option<u64>,
    /// Of the newest block; `None` before the first. After a restart it has the checkpoint's shares, and no rows.
    pub(crate) block: Option<BlockReport>,
    /// Class shares by labels of randomly drawn events; `None` while there are too few.
    pub(crate) shares_by_labels: Option<SharesByLabels>,
    /// Estimated without labels; at most a second old.
    pub(crate) accuracies: EstimatedAccuracies,
    /// Of the newest alignment step; `None` before the first.
    pub(crate) step: Option<StepReport>,
    /// Of the newest refresh; `None` before the first, and for black boxes.
    pub(crate) refresh: Option<RefreshReport>,
    /// States that the guard has refused, since this start.
    pub(crate) refusals: u64,
    /// Labels that were asked for and have not come, oldest first.
    pub(crate) wanted: Arc<[LabelRequest]>,
    /// What mode `auto` serves, and why. After a restart it is the checkpoint's.
    pub(crate) gate: GateState,
    /// Two-dimensional picture of the newest refresh, for the live page.
    pub(crate) picture: Option<Arc<Picture>>,
}

impl Status {
    /// How good every candidate was on the newest late labels; `None` without labels.
    pub(crate) fn measured(&self) -> Option<&Measurement> {
        let labels = self.block.as_ref()?.labels.as_ref()?;
        labels.measured.window.as_ref()
    }
}
