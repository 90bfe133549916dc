//! The manifest of a checkpoint, in a folder and in a topic.

use std::fmt;

use ostar_method::proportions::{LabelProportions, ProportionEstimate};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use twox_hash::XxHash64;

use super::Position;
use crate::{clock::now_ms, proto};

/// Format version of manifests that this build reads and writes, in folders and in topics.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// What a state was learned from and where to continue. Contents of `manifest.json`, and part of the record `manifest` of a
/// state topic. An `Option` is a key, too, whose value may be null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format.
    pub format_version: u32,
    /// When it was written, in milliseconds since 1970; set by [`Manifest::sealed`].
    pub created_at_ms: u64,
    /// The bytes of the state; set by [`Manifest::sealed`].
    pub state: StateBytes,
    /// Version of the state.
    pub version: Version,
    /// Blocks that the state has observed.
    pub blocks: u64,
    /// What the state belongs to.
    pub identity: Identity,
    /// Where the learner is.
    pub position: Position,
    /// Estimated proportions of the classes in the stream (p_N).
    pub proportions: LabelProportions,
    /// Shares as they were shown after the newest block. `None` before the first.
    #[serde(deserialize_with = "Option::deserialize")]
    pub shares: Option<Shares>,
    /// Orders that were in force.
    pub orders: Orders,
}

/// How many bytes a state has, and which.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateBytes {
    /// How many.
    pub length: usize,
    /// Their XXH64, in 16 hexadecimal digits.
    pub digest: String,
}

/// Identifies a learned state. Later states compare greater.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Number of the learner's start: 1 without a checkpoint, else one more than the checkpoint's.
    pub epoch: u64,
    /// Blocks and alignment steps that the state has taken.
    pub step: u64,
}

/// The bundle, settings and topic that a state belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Name of the bundle.
    pub bundle_name: String,
    /// Digest of the bundle, to refuse the state of another one.
    pub bundle_digest: String,
    /// Digest of the settings that the state was learned with; see [`digest`].
    pub settings_digest: String,
    /// Names of the classes, in the order of their indices.
    pub classes: Vec<String>,
    /// Topic that was learned from.
    pub topic: String,
    /// Identifies the folder in commits to the group.
    pub writer: String,
}

/// Orders that survive a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Orders {
    /// No alignment steps are taken.
    pub paused: bool,
    /// The serving mode that was ordered; `None` if it is the configured one.
    #[serde(deserialize_with = "Option::deserialize")]
    pub mode: Option<String>,
    /// The configured mode at that time. If the configuration has another one now, it counts.
    #[serde(deserialize_with = "Option::deserialize")]
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
    #[serde(deserialize_with = "Option::deserialize")]
    pub adapted: Option<ProportionEstimate>,
    /// Those of the served candidate.
    pub served: ProportionEstimate,
}

/// XXH64 in 16 hexadecimal digits, as for bundles. Detects damage, not tampering.
pub fn digest(bytes: &[u8]) -> String {
    format!("{:016x}", XxHash64::oneshot(0, bytes))
}

/// Reads the manifest of a folder or of a topic. Looks at the format version first: another format may have keys that
/// would be rejected as unknown. `Err` says what is wrong with it.
pub(crate) fn read_manifest<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Versioned {
        format_version: u32,
    }
    let broken = |error: serde_json::Error| format!("manifest: {error}");
    let Versioned { format_version } = serde_json::from_slice(bytes).map_err(broken)?;
    if format_version != FORMAT_VERSION {
        return Err(format!(
            "it has format version {format_version}, this version reads {FORMAT_VERSION}"
        ));
    }
    serde_json::from_slice(bytes).map_err(broken)
}

// === impl Manifest ===

impl Manifest {
    /// Of a state that has learned nothing.
    pub fn new(version: Version, identity: Identity, proportions: LabelProportions) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            created_at_ms: 0,
            state: StateBytes::default(),
            version,
            blocks: 0,
            identity,
            position: Position::default(),
            proportions,
            shares: None,
            orders: Orders::default(),
        }
    }

    /// The manifest of this state, written now.
    pub fn sealed(self, state: &[u8]) -> Self {
        Self {
            created_at_ms: now_ms(),
            state: StateBytes::new(state),
            ..self
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes =
            serde_json::to_vec_pretty(self).expect("numbers and texts have a JSON form");
        bytes.push(b'\n');
        bytes
    }
}

// === impl StateBytes ===

impl StateBytes {
    /// Describes these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len(),
            digest: digest(bytes),
        }
    }
}

// === impl Version ===

impl From<Version> for proto::Version {
    fn from(version: Version) -> Self {
        let Version { epoch, step } = version;
        Self { epoch, step }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.epoch, self.step)
    }
}
