//! Checkpoints of a training: with its last one, a training that was ended half way gives the same bytes as an
//! uninterrupted one.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use ostar_engine::{
    Generator, NamedTensors,
    tensors::{from_safetensors, read_metadata, to_safetensors},
};
use serde::{Deserialize, Serialize};

use super::{batches::Batches, proportions::RunningProportions};
use crate::task::Task;

/// What changes in a training, except the engine's networks and optimisers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TrainingState {
    /// The next epoch.
    pub(super) epoch: usize,
    pub(super) generator: Generator,
    /// Batches of the critic's steps, and of the others.
    pub(super) critic_batches: Batches,
    pub(super) batches: Batches,
    pub(super) proportions: RunningProportions,
    /// Of the newest map step.
    pub(super) transport_cost: f64,
}

/// The file that a training saves itself to, and the time it has taken, also before it was ended.
#[derive(Debug)]
pub struct Checkpoints {
    file: Option<CheckpointFile>,
    started: Instant,
    seconds_before: f64,
}

#[derive(Debug)]
struct CheckpointFile {
    path: PathBuf,
    /// Everything that results depend on. A checkpoint of another training is refused.
    identity: String,
    /// Whether to continue what the file holds.
    resume: bool,
    /// Least time between two checkpoints.
    interval: Duration,
    saved: Instant,
}

/// Keys of the file's header.
const IDENTITY: &str = "identity";
const STATE: &str = "state";
const SECONDS: &str = "seconds";

// === impl TrainingState ===

impl TrainingState {
    pub(super) fn new(task: &Task, batch: usize, epoch: usize, generator: Generator) -> Self {
        Self {
            epoch,
            generator,
            critic_batches: Batches::new(task, batch),
            batches: Batches::new(task, batch),
            proportions: RunningProportions::new(task.classes),
            transport_cost: 0.0,
        }
    }
}

// === impl Checkpoints ===

impl Checkpoints {
    /// Saves nothing.
    pub fn none() -> Self {
        Self {
            file: None,
            started: Instant::now(),
            seconds_before: 0.0,
        }
    }

    /// Saves to `path`, at the end of the first epoch after every `interval`. With `resume` a training continues what
    /// the file holds, if it was saved by a training of the same `identity`.
    pub fn at(path: &Path, identity: String, resume: bool, interval: Duration) -> Self {
        Self {
            file: Some(CheckpointFile {
                path: path.to_owned(),
                identity,
                resume,
                interval,
                saved: Instant::now(),
            }),
            ..Self::none()
        }
    }

    /// Time that the training has taken, without that after its last checkpoint before it was ended.
    pub fn seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }

    /// Removes the file: the training's result is safe.
    pub fn remove(&self) -> Result<()> {
        let Some(CheckpointFile { path, .. }) = &self.file else {
            return Ok(());
        };
        if path.exists() {
            fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        if let Some(folder) = path.parent() {
            // Other trainings may have checkpoints there.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// What to continue with, if there is a checkpoint.
    pub(super) fn load(&mut self) -> Result<Option<(NamedTensors, TrainingState)>> {
        let Some(file) = self.file.as_ref().filter(|file| file.resume) else {
            return Ok(None);
        };
        if !file.path.exists() {
            return Ok(None);
        }
        let place = || format!("cannot continue from {}", file.path.display());
        let bytes = fs::read(&file.path).with_context(place)?;
        let read = |key: &str| read_metadata(&bytes, key).with_context(place);
        ensure!(
            read(IDENTITY)? == file.identity,
            "{} was saved by a run with other data, settings or threads: remove it to start that run anew",
            file.path.display()
        );
        let state = serde_json::from_str(&read(STATE)?).with_context(place)?;
        self.seconds_before = read(SECONDS)?.parse().with_context(place)?;
        Ok(Some((from_safetensors(&bytes).with_context(place)?, state)))
    }

    /// Saves a training between two epochs, if its last checkpoint is old enough.
    pub(super) fn save_if_due(
        &mut self,
        tensors: impl FnOnce() -> ostar_engine::Result<NamedTensors>,
        state: &TrainingState,
    ) -> Result<()> {
        match &self.file {
            Some(file) if file.saved.elapsed() >= file.interval => self.save(&tensors()?, state),
            _ => Ok(()),
        }
    }

    /// Saves a training. A process that is killed meanwhile leaves the checkpoint before.
    pub(super) fn save(&mut self, tensors: &NamedTensors, state: &TrainingState) -> Result<()> {
        let seconds = self.seconds();
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let header = BTreeMap::from([
            (IDENTITY.to_owned(), file.identity.clone()),
            (STATE.to_owned(), serde_json::to_string(state)?),
            (SECONDS.to_owned(), seconds.to_string()),
        ]);
        let bytes = to_safetensors(tensors, header)?;
        replace(&file.path, &bytes)
            .with_context(|| format!("cannot write {}", file.path.display()))?;
        file.saved = Instant::now();
        Ok(())
    }
}

/// Replaces a file as a whole.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = path.with_extension("partial");
    let mut file = File::create(&partial)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(partial, path)
}
