//! The manifest of a checkpoint.

use std::path::Path;

use ostar_method::proportions::{LabelProportions, ProportionEstimate};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    StoreError,
    files::{digest, now_ms},
};
use crate::{event::Offsets, samples::SeenEvents};

/// Format version that this build reads and writes.
pub(crate) const MANIFEST_FORMAT_VERSION: u32 = 1;

/// Contents of `manifest.json`: what the state was learned from and where to continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format; set by the store.
    pub format_version: u32,
    /// Number of the learner's start: 1 without a checkpoint, else one more than the checkpoint's.
    pub epoch: u64,
    /// Alignment steps that the state has taken.
    pub step: u64,
    /// Blocks that the state has observed.
    pub blocks: u64,
    /// Events that the state has learned from.
    pub events: u64,
    /// When it was written, in milliseconds since 1970; set by the store.
    pub created_at_ms: u64,
    /// Name of the bundle that the state belongs to.
    pub bundle_name: String,
    /// Digest of that bundle, to refuse the state of another one.
    pub bundle_digest: String,
    /// XXH64 of `state.safetensors`, in 16 hexadecimal digits; set by the store.
    pub state_digest: String,
    /// Digest of the settings that the state was learned with; see [`digest`](super::digest).
    pub settings_digest: String,
    /// Names of the classes, in the order of their indices.
    pub classes: Vec<String>,
    /// Estimated proportions of the classes in the stream (p_N).
    pub proportions: LabelProportions,
    /// Topic that the offsets belong to.
    pub topic: String,
    /// The offset to read next in each partition; all events before it are in the state.
    pub offsets: Offsets,
    /// In each partition, the offset behind the last event whose output is delivered or parked, and all before it.
    pub emitted: Offsets,
    /// The broker's id of the topic that the offsets belong to. `None` if the broker does not tell.
    pub topic_id: Option<String>,
    /// Shares as they were shown after the newest block. `None` before the first.
    pub shares: Option<Shares>,
    /// Orders that were in force.
    pub orders: Orders,
    /// Identifies the folder in commits to the group.
    pub writer: String,
    /// The offset to read next in each partition of the labels' topic; all labels before it are in the state. `None`
    /// without one.
    pub label_offsets: Option<Offsets>,
    /// Newest time of a record among the events in the state, in milliseconds since 1970: labels before it take effect. 0
    /// if no labels are read.
    pub label_border_ms: i64,
    /// Requests for labels of blocks up to this one are delivered.
    pub requested_block: u64,
    /// If `topic` is one of samples: by partition of the events, how far they are in the state.
    pub sampled: SeenEvents,
}

/// Orders that survive a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orders {
    /// No alignment steps are taken.
    pub paused: bool,
    /// The serving mode that was ordered; `None` if it is the configured one.
    pub mode: Option<String>,
    /// The configured mode at that time. If the configuration has another one now, it counts.
    pub configured_mode: Option<String>,
}

/// Estimated shares of the classes, by candidate. Shown after a restart until the next block is full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    /// When the block was full, in milliseconds since 1970.
    pub at_ms: u64,
    /// By the frozen model.
    pub frozen: ProportionEstimate,
    /// By the adapted model; `None` for a black box.
    pub adapted: Option<ProportionEstimate>,
    /// Those of the served candidate.
    pub served: ProportionEstimate,
}

impl Manifest {
    /// The manifest of this state, written now.
    pub fn sealed(self, state: &[u8]) -> Self {
        Self {
            format_version: MANIFEST_FORMAT_VERSION,
            created_at_ms: now_ms(),
            state_digest: digest(state),
            ..self
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes =
            serde_json::to_vec_pretty(self).expect("numbers and texts have a JSON form");
        bytes.push(b'\n');
        bytes
    }

    /// The bytes have the digest that was written with them: what cannot be read is not damage.
    pub(super) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        from_versioned(bytes, MANIFEST_FORMAT_VERSION).map_err(|problem| StoreError::Foreign {
            path: path.into(),
            problem,
        })
    }
}

/// Reads JSON of this format version, which it looks at first: another format may have keys that would be rejected as
/// unknown. `Err` says what is wrong with it.
pub(crate) fn from_versioned<T: DeserializeOwned>(bytes: &[u8], known: u32) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Versioned {
        format_version: u32,
    }
    let broken = |error: serde_json::Error| format!("manifest: {error}");
    let Versioned { format_version } = serde_json::from_slice(bytes).map_err(broken)?;
    if format_version != known {
        return Err(format!(
            "it has format version {format_version}, this version reads {known}"
        ));
    }
    serde_json::from_slice(bytes).map_err(broken)
}
