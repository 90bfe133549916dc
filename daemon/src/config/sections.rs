//! The sections of the configuration that belong to the daemon itself.

use std::path::PathBuf;

use ostar_connectors::settings::Period;
use ostar_model::learner::LearnerSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::current::ServingMode;

/// The model that a user brings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct BundleSettings {
    /// Folder of the bundle.
    pub(crate) path: Option<PathBuf>,
}

/// When and how the learner learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LearnerSection {
    /// Events of a block: what the learner takes at a time.
    #[schemars(range(min = 1))]
    pub(crate) block: usize,
    /// Alignment steps after each block; 0 follows the proportions alone.
    pub(crate) steps_per_block: usize,
    /// What to do when blocks come faster than the learner takes them.
    pub(crate) when_behind: WhenBehind,
    /// How much the learner's threads give way to serving, 0 to 19.
    #[schemars(range(max = 19))]
    pub(crate) nice: u8,
    /// Settings of the method.
    pub(crate) method: LearnerSettings,
}

/// What to do when blocks come faster than the learner takes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhenBehind {
    /// Leave steps out, and count them. Events are never left out.
    #[default]
    Skip,
    /// Read slower: every block gets its steps, and a replay learns the same to the last bit.
    Wait,
}

/// What is served.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ServingSettings {
    /// Which of the candidates.
    pub(crate) mode: ServingMode,
}

/// The state that lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CheckpointSettings {
    /// Folder of the checkpoints.
    pub(crate) folder: Option<PathBuf>,
    /// One is written every so many events, but not more often than `min_interval`.
    #[schemars(range(min = 1))]
    pub(crate) every_events: u64,
    /// Time between two at least.
    pub(crate) min_interval: Period,
    /// How many are kept.
    #[schemars(range(min = 1))]
    pub(crate) keep: usize,
    /// What to do when the newest one belongs to another bundle.
    pub(crate) on_bundle_change: OnBundleChange,
}

/// What to do when the newest checkpoint belongs to another bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnBundleChange {
    /// Do not start.
    #[default]
    Refuse,
    /// Learn from nothing, and go on reading where the checkpoint ends.
    StartAnew,
    /// Learn anew from the checkpoint's window, if the inputs match.
    KeepWindow,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogSettings {
    /// How lines are written.
    pub(crate) format: LogFormat,
    /// Which lines: a level, or target=level pairs separated by commas.
    pub(crate) filter: String,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for machines.
    Json,
}

/// How the process ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ShutdownSettings {
    /// Time from SIGTERM to the end at most.
    pub(crate) deadline: Period,
}

impl Default for LearnerSection {
    fn default() -> Self {
        Self {
            block: 500,
            steps_per_block: 5,
            when_behind: WhenBehind::Skip,
            nice: 10,
            method: LearnerSettings::default(),
        }
    }
}

impl LearnerSection {
    /// Changes with every setting that decides what is learned.
    pub(crate) fn digest(&self) -> String {
        let decides = (self.block, self.steps_per_block, &self.method);
        let bytes = serde_json::to_vec(&decides).unwrap_or_default();
        ostar_connectors::checkpoint::digest(&bytes)
    }
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        Self {
            folder: None,
            every_events: 5_000,
            min_interval: Period::from_secs(10),
            keep: 3,
            on_bundle_change: OnBundleChange::Refuse,
        }
    }
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            format: LogFormat::Text,
            filter: "info".into(),
        }
    }
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self {
            deadline: Period::from_secs(30),
        }
    }
}
