//! The sections of the configuration that belong to the daemon itself.

use std::path::PathBuf;

use ostar_connectors::settings::Period;
use ostar_engine::Device;
use ostar_method::{gate::Objective, learner::LearnerSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CheckpointKind;
use crate::current::ServingMode;

/// The deployed model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct BundleSettings {
    /// Folder of the model bundle, as `ostard fit` writes it. Required.
    pub(crate) path: Option<PathBuf>,
}

/// When and how the daemon learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct LearnerSection {
    /// Where the learner works: `cpu`, `candle` or `cuda:N`. `ostard devices` lists what there is.
    pub(crate) device: Device,
    /// Events that are learned together.
    #[schemars(range(min = 1))]
    pub(crate) block: usize,
    /// Alignment steps after each block: in mode `adapted` always, in other modes once the classes changed. The first six
    /// blocks after a change get sixteen times as many. With 0 the daemon only follows the class proportions.
    pub(crate) steps_per_block: usize,
    /// What to do when blocks arrive faster than they are learned.
    pub(crate) when_behind: WhenBehind,
    /// Niceness of the learner's threads. The higher, the more they yield to serving.
    #[schemars(range(max = 19))]
    pub(crate) nice: u8,
    /// The OSTAR method.
    pub(crate) method: LearnerSettings,
}

/// What to do when blocks arrive faster than they are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhenBehind {
    /// Omit steps and count them. No event is omitted.
    Skip,
    /// Slow reading down: every block gets its steps, and a replay gives the same bytes.
    Wait,
}

/// What callers get.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct ServingSettings {
    /// Which candidate is served.
    pub(crate) mode: ServingMode,
    /// What predictions are used for: how labels compare candidates.
    pub(crate) objective: Objective,
}

/// Where and how often what is learned is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct CheckpointSettings {
    /// Where what is learned is kept: in a folder, or in a compacted topic.
    pub(crate) store: CheckpointKind,
    /// Folder of the checkpoints. Required for `store = "folder"`.
    pub(crate) folder: Option<PathBuf>,
    /// Topic of the state, with one partition, compacted. Required for `store = "kafka"` and for the roles scorer and learner.
    pub(crate) topic: Option<String>,
    /// Shortest time between two snapshots in the topic.
    pub(crate) snapshot_interval: Period,
    /// The learner writes to the topic at least this often, so that others know that it lives.
    pub(crate) heartbeat: Period,
    /// A learner that does not answer the broker for so long is taken for dead, and another one takes over.
    pub(crate) session_timeout: Period,
    /// A checkpoint is written after this many events, but not more often than `min_interval`.
    #[schemars(range(min = 1))]
    pub(crate) every_events: u64,
    /// Shortest time between two checkpoints.
    pub(crate) min_interval: Period,
    /// How many checkpoints are kept.
    #[schemars(range(min = 1))]
    pub(crate) keep: usize,
    /// What to do if the newest checkpoint belongs to another bundle.
    pub(crate) on_bundle_change: OnBundleChange,
}

/// What to do if the newest checkpoint belongs to another bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnBundleChange {
    /// Do not start: exit with an error that names both bundles.
    Refuse,
    /// Learn from nothing, from where the checkpoint ends.
    StartAnew,
    /// Learn from nothing, from `learner.method.window` events before the end of the checkpoint, so that the window
    /// fills at once. These events are not emitted again.
    KeepWindow,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct LogSettings {
    /// Format of the lines.
    pub(crate) format: LogFormat,
    /// A level, or target=level pairs separated by commas. The variable `RUST_LOG` overrides it.
    pub(crate) filter: String,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Plain text, for people.
    Text,
    /// One JSON object per line, for machines.
    Json,
}

/// How the process ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct ShutdownSettings {
    /// Longest time from SIGTERM to the end of the process.
    pub(crate) deadline: Period,
}

impl LearnerSection {
    /// A digest of the settings that decide what is learned. Checkpoints keep it, to warn when they change. Not of the
    /// device, which a checkpoint may cross.
    pub(crate) fn digest(&self) -> String {
        let decides = (self.block, self.steps_per_block, &self.method);
        let bytes = serde_json::to_vec(&decides).unwrap_or_default();
        ostar_connectors::checkpoint::digest(&bytes)
    }
}
