//! What a start takes over from the newest checkpoint, and where it reads on.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use ostar_connectors::{
    checkpoint::{Checkpoint, Manifest},
    event::Offsets,
    kafka::Start,
};
use ostar_model::Bundle;
use tracing::{info, warn};

use crate::{
    config::{Config, OnBundleChange},
    pipeline::Progress,
};

/// What the learner starts with.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    /// The learner's saved state; `None` to start with an empty one.
    pub(super) state: Option<Vec<u8>>,
    pub(super) progress: Progress,
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
    if manifest.topic != config.kafka.topic {
        bail!(
            "checkpoint {} has learned from topic {:?}, kafka.topic is {:?}; set another \
             checkpoints.folder, or go back to the topic",
            path.display(),
            manifest.topic,
            config.kafka.topic
        );
    }
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
            },
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
        progress: Progress { events: 0, offsets },
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

/// Where to read from so that every event is both learned and emitted: in each partition the lower of the two offsets.
/// With no offsets at all `kafka.start` decides; a partition that is missing among others is read from its beginning.
pub(super) fn first_offsets(learned: &Offsets, emitted: &Offsets, start: Start) -> Offsets {
    if learned.is_empty() {
        // A new learner takes all there is. Emission leaves out what was emitted before.
        return match start {
            Start::Earliest => Offsets::new(),
            Start::Latest | Start::Timestamp => emitted.clone(),
        };
    }
    let lower = |(partition, learned): (&i32, &i64)| {
        // Without a commit nothing of the partition was emitted: read it from its beginning.
        let emitted = emitted.get(partition)?;
        Some((*partition, *learned.min(emitted)))
    };
    learned.iter().filter_map(lower).collect()
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
    fn reading_starts_at_the_lower_of_learned_and_emitted() {
        let learned = Offsets::from([(0, 10), (1, 30), (2, 5)]);
        let emitted = Offsets::from([(0, 20), (1, 25)]);
        let first = first_offsets(&learned, &emitted, Start::Latest);
        assert_eq!(first, Offsets::from([(0, 10), (1, 25)]));
    }

    #[test]
    fn a_new_learner_reads_from_the_group_unless_it_wants_everything() {
        let (nothing, emitted) = (Offsets::new(), Offsets::from([(0, 20)]));
        assert_eq!(first_offsets(&nothing, &emitted, Start::Latest), emitted);
        assert_eq!(first_offsets(&nothing, &emitted, Start::Earliest), nothing);
    }

    #[test]
    fn a_window_is_rewound_over_all_partitions_and_not_below_zero() {
        let offsets = Offsets::from([(0, 100), (1, 2)]);
        assert_eq!(rewound(&offsets, 9), Offsets::from([(0, 95), (1, 0)]));
    }
}
