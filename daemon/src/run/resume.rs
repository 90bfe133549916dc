//! What a start takes over from the newest checkpoint.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use ostar_bundle::Bundle;
use ostar_connectors::{
    checkpoint::{Checkpoint, Manifest, Orders, Shares},
    event::Offsets,
};
use tracing::{info, warn};

use crate::{
    config::{Config, OnBundleChange, Role},
    pipeline::Progress,
};

/// What the learner starts with.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    /// The learner's saved state; `None` to start with an empty one.
    pub(super) state: Option<Vec<u8>>,
    pub(super) progress: Progress,
    /// Shares as they were shown; `None` with another bundle.
    pub(super) shares: Option<Shares>,
    /// Orders that were in force.
    pub(super) orders: Orders,
    /// `None` if there is no checkpoint.
    pub(super) earlier: Option<Earlier>,
}

/// What the checkpoint says about outputs.
#[derive(Debug, Clone)]
pub(super) struct Earlier {
    /// Outputs of events before these offsets are delivered or parked.
    pub(super) emitted: Offsets,
    /// Identifies the folder in commits to the group.
    pub(super) writer: String,
}

/// Takes over the newest checkpoint as far as it fits the topic and the bundle.
pub(super) fn resume(
    config: &Config,
    bundle_folder: &Path,
    bundle: &Bundle,
    newest: Option<Checkpoint>,
) -> Result<Resumed> {
    let Some(checkpoint) = newest else {
        return Ok(Resumed::default());
    };
    let Checkpoint {
        manifest,
        state,
        path,
    } = checkpoint;
    let topic = config.learned_topic();
    if manifest.topic != topic {
        let (key, place) = match config.role {
            Role::Learner => ("samples.topic", "topic"),
            Role::All | Role::Scorer if config.keeps_folder() => ("kafka.topic", "folder"),
            Role::All | Role::Scorer => ("kafka.topic", "topic"),
        };
        bail!(
            "checkpoint {} has learned from topic {:?}, {key} is {topic:?}; set another checkpoints.{place}, or go \
             back to the topic",
            path.display(),
            manifest.topic,
        );
    }
    let earlier = Some(Earlier {
        emitted: manifest.emitted.clone(),
        writer: manifest.writer.clone(),
    });
    if manifest.bundle_digest == bundle.digest() {
        if manifest.settings_digest != config.learner.digest() {
            warn!("learner settings changed since the checkpoint was written");
        }
        info!(checkpoint = %path.display(), events = manifest.events, "resumed from checkpoint");
        return Ok(Resumed {
            state: Some(state),
            progress: Progress {
                events: manifest.events,
                offsets: manifest.offsets,
                topic_id: manifest.topic_id,
                label_offsets: manifest.label_offsets,
                border_ms: manifest.label_border_ms,
                requested_block: manifest.requested_block,
                sampled: manifest.sampled,
            },
            shares: manifest.shares,
            orders: manifest.orders,
            earlier,
        });
    }
    let offsets = match config.checkpoints.on_bundle_change {
        OnBundleChange::Refuse => {
            return Err(another_bundle(bundle_folder, bundle, &manifest, &path));
        }
        OnBundleChange::StartAnew => {
            warn!("bundle changed: starting with an empty state where the checkpoint ends");
            manifest.offsets
        }
        OnBundleChange::KeepWindow => {
            warn!("bundle changed: filling the window from the events before the checkpoint");
            rewound(&manifest.offsets, config.learner.method.window)
        }
    };
    Ok(Resumed {
        state: None,
        progress: Progress {
            events: 0,
            offsets,
            topic_id: manifest.topic_id,
            label_offsets: manifest.label_offsets,
            border_ms: manifest.label_border_ms,
            // Blocks are counted anew.
            requested_block: 0,
            sampled: manifest.sampled,
        },
        shares: None,
        orders: manifest.orders,
        earlier,
    })
}

fn another_bundle(
    bundle_folder: &Path,
    bundle: &Bundle,
    manifest: &Manifest,
    path: &Path,
) -> anyhow::Error {
    anyhow!(
        "checkpoint {} belongs to bundle {:?} (digest {}), bundle.path = {:?} is {:?} (digest {}); set \
         checkpoints.on_bundle_change to \"start_anew\" to learn from here with the new bundle, to \"keep_window\" \
         to fill its window from the events before, or go back to the old bundle",
        path.display(),
        manifest.bundle_name,
        manifest.bundle_digest,
        bundle_folder.display(),
        bundle.description().name,
        bundle.digest(),
    )
}

/// Offsets so far back that a window of events lies after them, spread evenly over the partitions.
fn rewound(offsets: &Offsets, window: usize) -> Offsets {
    let each = window.div_ceil(offsets.len().max(1)) as i64;
    let back = |(partition, offset): (&i32, &i64)| (*partition, (offset - each).max(0));
    offsets.iter().map(back).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_rewound_over_all_partitions_and_not_below_zero() {
        let offsets = Offsets::from([(0, 100), (1, 2)]);
        assert_eq!(rewound(&offsets, 9), Offsets::from([(0, 95), (1, 0)]));
    }
}
