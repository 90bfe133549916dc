//! What is learned is kept in a folder: one process writes, others serve its newest checkpoint until it ends.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use ostar_connectors::checkpoint::{CheckpointStore, CheckpointWriter, Newest, Version};
use ostar_engine::Device;
use ostar_method::learner::LoadedSnapshot;
use tracing::{error, info, warn};

use super::{Held, Process};
use crate::{
    error_text::one_line,
    pipeline::{Store, load_learner, show_damaged},
    shutdown::Signals,
};

/// How often the lock is tried and the newest checkpoint is read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl Process {
    /// Stands by until this process holds the writer's lock.
    pub(super) async fn hold_folder(
        &mut self,
        folder: PathBuf,
        signals: &mut Signals,
    ) -> Result<Held> {
        let store = CheckpointStore::open(folder, self.config.checkpoints.keep)?;
        let (mut stands_by, mut served) = (false, None);
        let look = |process: &Self| {
            if let Some(writer) = store.try_lock()? {
                return Ok(Some(writer));
            }
            if !stands_by {
                stands_by = true;
                info!(folder = %store.folder().display(), "another process learns here: standing by");
                process.publisher.set_standby(true);
            }
            process.follow_folder(&store, &mut served);
            process.health.set_started();
            Ok(None)
        };
        let writer = self.wait_until(signals, LOOK_EVERY, look).await?;
        if stands_by {
            info!("the other process has ended: taking over");
            self.publisher.set_standby(false);
        }
        self.resume_folder(writer)
    }

    /// Serves the newest checkpoint if it is another one than `served`. One of another bundle is ignored: its state does
    /// not fit.
    fn follow_folder(&self, store: &CheckpointStore, served: &mut Option<Version>) {
        // A look at the manifest is enough most of the time: the state may be large.
        if let Ok(Some(manifest)) = store.newest_manifest()
            && *served == Some(manifest.version)
        {
            return;
        }
        let newest = match store.newest() {
            Ok(Some(newest)) => newest,
            Ok(None) => return,
            Err(error) => return warn!(%error, "cannot read the newest checkpoint"),
        };
        let manifest = &newest.manifest;
        let is_foreign = manifest.identity.bundle_digest != self.bundle.digest();
        if *served == Some(manifest.version) || is_foreign {
            return;
        }
        // Only for its snapshot: a process on standby takes no memory of a GPU.
        let settings = self.config.unlabelled_learner();
        match load_learner(Device::Cpu, &self.bundle, settings, Some(&newest.state)) {
            Ok(learner) => {
                let read = LoadedSnapshot {
                    snapshot: learner.snapshot(),
                    gate: learner.gate().clone(),
                };
                let (steps, alarms) = (learner.steps(), learner.alarms());
                self.publisher.follow(manifest, read, steps, alarms);
                *served = Some(manifest.version);
            }
            Err(error) => warn!(error = %one_line(&error), "cannot serve the newest checkpoint"),
        }
    }

    /// The folder is this process's: finds its newest checkpoint and claims the next epoch.
    fn resume_folder(&self, writer: CheckpointWriter) -> Result<Held> {
        let Newest {
            checkpoint: newest,
            damaged,
        } = writer.resume()?;
        let found = damaged.first().map(|first| {
            let instead = match &newest {
                Some(newest) => format!("resumed from {}", newest.path.display()),
                None => "no intact one is left: learning from nothing".to_owned(),
            };
            let others = match damaged.len() {
                1 => String::new(),
                all => format!(" (and {} more)", all - 1),
            };
            format!("{first}{others}; {instead}")
        });
        if let Some(found) = &found {
            error!(found, "started without damaged checkpoints");
        }
        show_damaged(writer.store(), found, &self.health, &self.publisher.metrics);
        let last = newest
            .as_ref()
            .map_or(0, |newest| newest.manifest.version.epoch);
        // If the folder cannot be written, checkpoints will fail, too: that is reported at once.
        let epoch = writer.claim_epoch(last).unwrap_or_else(|error| {
            error!(%error, "cannot write to the checkpoint folder");
            self.publisher.metrics.checkpoints.failures.inc();
            let reason = format!("{error}; a restart learns again what no checkpoint holds");
            self.health.set_condition("checkpoints", reason);
            last + 1
        });
        Ok(Held {
            store: Store::Folder(writer),
            newest,
            epoch,
        })
    }
}
