//! The configuration as commands use it: a valid one has the folders that they need.

use std::path::Path;

use anyhow::{Context, Result};
use ostar_bundle::Bundle;

use super::{Config, Reading};

impl Config {
    /// `bundle.path`.
    pub(crate) fn bundle_folder(&self) -> &Path {
        self.bundle.path.as_deref().unwrap_or(Path::new(""))
    }

    pub(crate) fn load_bundle(&self) -> Result<Bundle> {
        let folder = self.bundle_folder();
        Bundle::load(folder).with_context(|| format!("cannot load bundle.path = {folder:?}"))
    }

    /// `checkpoints.folder`; `None` if what is learned is kept in a topic, or by others.
    pub(crate) fn checkpoint_folder(&self) -> Option<&Path> {
        let folder = self.checkpoints.folder.as_deref();
        folder.filter(|_| self.keeps_folder())
    }

    /// The group that tools see, unless one is set.
    pub(crate) fn choose_group(&mut self, bundle: &Bundle) {
        if self.kafka.group.is_none() {
            let name = &bundle.description().name;
            self.kafka.group = Some(self.kafka.default_group(name));
        }
    }
}

impl Reading {
    /// The configuration of a command that reads a bundle, writes no checkpoints and does not use the keys in `unused`, and
    /// the bundle.
    pub(crate) fn for_bundle(self, unused: &[&str]) -> Result<(Config, Bundle)> {
        let mut ignored = vec!["checkpoints.folder"];
        ignored.extend(unused);
        let config = self.valid_without(&ignored)?;
        let bundle = config.load_bundle()?;
        Ok((config, bundle))
    }
}
