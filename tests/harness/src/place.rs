//! A temporary folder with a bundle in it.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use crate::{Client, daemon::Settings, gaussians};

/// A folder with a bundle of [`gaussians`], and room for checkpoints. Dropping it removes it.
#[derive(Debug)]
pub struct Place(TempDir);

impl Place {
    /// Trains the bundle.
    pub fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        gaussians::write_bundle(&folder.path().join("bundle"))?;
        Ok(Self(folder))
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where a daemon keeps its checkpoints.
    pub fn checkpoints(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A daemon that learns in small blocks from the raw events of a topic.
    pub fn settings(&self, kafka: &Client, topic: &str, checkpoints: &str) -> Settings {
        let bundle = self.path().join("bundle");
        Settings::new(
            kafka.address(),
            topic,
            &bundle,
            &self.checkpoints(checkpoints),
        )
        .with("kafka.group", &format!("{topic}-{checkpoints}"))
        .with("events.format", "raw")
        .with("learner.block", "250")
        .with("learner.steps_per_block", "2")
        .with("learner.when_behind", "wait")
        .with("learner.method.window", "1000")
        .with("learner.method.threads", "1")
        // At the default priority: tests run beside builds.
        .with("learner.nice", "0")
        .with("checkpoints.every_events", "250")
        .with("checkpoints.min_interval", "0s")
    }
}
