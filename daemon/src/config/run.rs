//! The configuration as commands get it: what they cannot do without is set.

use std::path::PathBuf;

use super::{Config, Problems, Reading, problems::Located};

/// What `ostard run` works with.
#[derive(Debug, Clone)]
pub(crate) struct RunConfig {
    /// Folder of the bundle: `bundle.path`.
    pub(crate) bundle_folder: PathBuf,
    /// Folder of the checkpoints: `checkpoints.folder`. `None` if they are kept in a topic, or by others.
    pub(crate) checkpoint_folder: Option<PathBuf>,
    pub(crate) config: Config,
}

/// What commands work with that read a bundle and write no checkpoints.
#[derive(Debug, Clone)]
pub(crate) struct BundleConfig {
    /// Folder of the bundle: `bundle.path`.
    pub(crate) bundle_folder: PathBuf,
    pub(crate) config: Config,
}

impl Reading {
    /// The configuration of `ostard run`, if nothing is wrong.
    pub(crate) fn for_run(self) -> Result<RunConfig, Problems> {
        let config = self.valid()?;
        match (&config.bundle.path, &config.checkpoints.folder) {
            (Some(bundle), folder) if folder.is_some() || !config.keeps_folder() => Ok(RunConfig {
                bundle_folder: bundle.clone(),
                checkpoint_folder: folder.clone().filter(|_| config.keeps_folder()),
                config,
            }),
            _ => Err(incomplete(&config)),
        }
    }

    /// The configuration of a command that reads a bundle, writes no checkpoints and does not use the keys in `unused`.
    pub(crate) fn for_bundle(self, unused: &[&str]) -> Result<BundleConfig, Problems> {
        let mut ignored = vec!["checkpoints.folder"];
        ignored.extend(unused);
        let config = self.valid_without(&ignored)?;
        match &config.bundle.path {
            Some(bundle) => Ok(BundleConfig {
                bundle_folder: bundle.clone(),
                config,
            }),
            None => Err(incomplete(&config)),
        }
    }
}

/// A valid configuration is complete: checking it reports every folder that is missing.
fn incomplete(config: &Config) -> Problems {
    let located = |problem| Located {
        problem,
        origin: None,
    };
    Problems(config.problems().into_iter().map(located).collect())
}
