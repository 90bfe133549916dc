//! What a start takes over from the newest checkpoint.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use ostar_bundle::Bundle;
use ostar_connectors::{
    checkpoint::{Checkpoint, Identity, Manifest},
    event::Offsets,
    kafka::Writer,
};
use tracing::{info, warn};

use crate::config::{Config, OnBundleChange, Role};

/// What the learner starts with.
#[derive(Debug, Default)]
pub(super) struct Resumed {
    /// The learner's saved state; `None` to start with an empty one.
    pub(super) state: Option<Vec<u8>>,
    /// Where to read on, and what is in force; `None` if there is no checkpoint.
    pub(super) manifest: Option<Manifest>,
}

/// What the states of this process belong to.
pub(super) fn identity(config: &Config, bundle: &Bundle, writer: &Writer) -> Identity {
    let description = bundle.description();
    Identity {
        bundle_name: description.name.clone(),
        bundle_digest: bundle.digest().to_owned(),
        settings_digest: config.learner.digest(),
        classes: description.classes.clone(),
        topic: config.learned_topic().to_owned(),
        writer: writer.id.clone(),
    }
}

/// Takes over the newest checkpoint as far as it fits the topic and the bundle.
pub(super) fn resume(
    config: &Config,
    bundle: &Bundle,
    newest: Option<Checkpoint>,
) -> Result<Resumed> {
    let Some(checkpoint) = newest else {
        return Ok(Resumed::default());
    };
    let Checkpoint {
        mut manifest,
        state,
        path,
    } = checkpoint;
    check_topic(config, &manifest.identity, &path)?;
    let position = &mut manifest.position;
    if manifest.identity.bundle_digest == bundle.digest() {
        if manifest.identity.settings_digest != config.learner.digest() {
            warn!("learner settings changed since the checkpoint was written");
        }
        info!(checkpoint = %path.display(), events = position.events, "resumed from checkpoint");
        return Ok(Resumed {
            state: Some(state),
            manifest: Some(manifest),
        });
    }
    match config.checkpoints.on_bundle_change {
        OnBundleChange::Refuse => {
            return Err(another_bundle(config, bundle, &manifest.identity, &path));
        }
        OnBundleChange::StartAnew => {
            warn!("bundle changed: starting with an empty state where the checkpoint ends");
        }
        OnBundleChange::KeepWindow => {
            warn!("bundle changed: filling the window from the events before the checkpoint");
            position.learned = rewound(&position.learned, config.learner.method.window);
        }
    }
    // An empty state has seen no event and no block.
    position.events = 0;
    position.requested_block = 0;
    manifest.shares = None;
    Ok(Resumed {
        state: None,
        manifest: Some(manifest),
    })
}

fn check_topic(config: &Config, identity: &Identity, path: &Path) -> Result<()> {
    let topic = config.learned_topic();
    if identity.topic != topic {
        let (key, place) = match config.role {
            Role::Learner => ("samples.topic", "topic"),
            Role::All | Role::Scorer if config.keeps_folder() => ("kafka.topic", "folder"),
            Role::All | Role::Scorer => ("kafka.topic", "topic"),
        };
        bail!(
            "checkpoint {} has learned from topic {:?}, {key} is {topic:?}; set another checkpoints.{place}, or go \
             back to the topic",
            path.display(),
            identity.topic,
        );
    }
    Ok(())
}

fn another_bundle(
    config: &Config,
    bundle: &Bundle,
    theirs: &Identity,
    path: &Path,
) -> anyhow::Error {
    anyhow!(
        "checkpoint {} belongs to bundle {:?} (digest {}), bundle.path = {:?} is {:?} (digest {}); set \
         checkpoints.on_bundle_change to \"start_anew\" to learn from here with the new bundle, to \"keep_window\" \
         to fill its window from the events before, or go back to the old bundle",
        path.display(),
        theirs.bundle_name,
        theirs.bundle_digest,
        config.bundle_folder(),
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
