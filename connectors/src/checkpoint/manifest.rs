//! What a checkpoint says of its state.

use std::path::Path;

use ostar_model::proportions::LabelProportions;
use serde::{Deserialize, Serialize};

use super::StoreError;
use crate::event::Offsets;

/// The format that this version reads and writes.
pub const MANIFEST_FORMAT_VERSION: u32 = 1;

/// `manifest.json` of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`MANIFEST_FORMAT_VERSION`]; set by the store.
    pub format_version: u32,
    /// Grows with every start of the learner.
    pub epoch: u64,
    /// Alignment steps behind the state.
    pub step: u64,
    /// Blocks behind the state.
    pub blocks: u64,
    /// Events behind the state.
    pub events: u64,
    /// When it was written, in milliseconds since 1970; set by the store.
    pub created_at_ms: u64,
    /// Name of the bundle that the state belongs to.
    pub bundle_name: String,
    /// Digest of that bundle.
    pub bundle_digest: String,
    /// XXH64 of `state.safetensors`, in 16 hexadecimal digits; set by the store.
    pub state_digest: String,
    /// Digest of the settings that the state was learned with; see [`digest`](super::digest).
    pub settings_digest: String,
    /// Names of the classes, in the order of their labels.
    pub classes: Vec<String>,
    /// Their shares of the stream (p_N).
    pub proportions: LabelProportions,
    /// The topic that the offsets belong to.
    pub topic: String,
    /// Where to go on reading: the events before these are in the state.
    pub offsets: Offsets,
}

impl Manifest {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes =
            serde_json::to_vec_pretty(self).expect("numbers and texts have a JSON form");
        bytes.push(b'\n');
        bytes
    }

    /// Looks at the version first: a newer format may have keys that would be refused as unknown.
    pub(super) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Versioned {
            format_version: u32,
        }
        let corrupt = |error: serde_json::Error| StoreError::Corrupt {
            path: path.into(),
            problem: format!("manifest.json cannot be read: {error}"),
        };
        let versioned: Versioned = serde_json::from_slice(bytes).map_err(corrupt)?;
        if versioned.format_version > MANIFEST_FORMAT_VERSION {
            return Err(StoreError::Newer {
                path: path.into(),
                found: versioned.format_version,
            });
        }
        serde_json::from_slice(bytes).map_err(corrupt)
    }
}
