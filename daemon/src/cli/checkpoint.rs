//! `ostard checkpoint`.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use ostar_connectors::checkpoint::{CheckpointStore, ListedCheckpoint};

use super::print;

/// Inspect a folder of checkpoints, also while a daemon writes to it.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// List the checkpoints, newest first, and mark damaged ones.
    List {
        /// The daemon's checkpoints.folder.
        folder: PathBuf,
    },
    /// Print the manifest of one checkpoint as JSON.
    Show {
        /// The daemon's checkpoints.folder.
        folder: PathBuf,
        /// Name of the checkpoint, as `list` prints it. Without it, the newest undamaged one.
        name: Option<String>,
    },
}

const EXAMPLES: &str = "\
Examples:
  ostard checkpoint list state
  ostard checkpoint show state
  ostard checkpoint show state checkpoint-00000012";

impl Command {
    pub(super) fn execute(self) -> Result<()> {
        let text = match self {
            Self::List { folder } => list(&folder)?,
            Self::Show { folder, name } => show(&folder, name.as_deref())?,
        };
        print(&text)
    }
}

/// Checks first that the folder exists, because opening the store would create it.
fn open(folder: &Path) -> Result<CheckpointStore> {
    if !folder.is_dir() {
        bail!("{folder:?} is not a folder, expected the daemon's checkpoints.folder");
    }
    Ok(CheckpointStore::open(folder, usize::MAX)?)
}

fn list(folder: &Path) -> Result<String> {
    let mut text = String::new();
    let store = open(folder)?;
    for ListedCheckpoint { name, manifest } in store.list()?.into_iter().rev() {
        match manifest {
            Ok(manifest) => {
                let shares = manifest.identity.classes.iter();
                let shares = shares.zip(manifest.proportions.as_ref());
                let shares: Vec<_> = shares
                    .map(|(class, share)| format!("{class} {share:.3}"))
                    .collect();
                writeln!(
                    text,
                    "{name}  epoch {}  step {}  events {}  {}  {}",
                    manifest.version.epoch,
                    manifest.version.step,
                    manifest.position.events,
                    manifest.identity.bundle_name,
                    shares.join("  ")
                )?;
            }
            Err(error) => writeln!(text, "{name}  {error}")?,
        }
    }
    for name in store.damaged()?.into_iter().rev() {
        writeln!(text, "{name}  was damaged, and moved aside by the daemon")?;
    }
    Ok(text)
}

fn show(folder: &Path, name: Option<&str>) -> Result<String> {
    let store = open(folder)?;
    let checkpoint = match name {
        Some(name) => store.show(name)?,
        None => store
            .newest()?
            .with_context(|| format!("there is no checkpoint in {folder:?}"))?,
    };
    Ok(serde_json::to_string_pretty(&checkpoint.manifest)? + "\n")
}

#[cfg(test)]
mod tests {
    use ostar_connectors::checkpoint::{Identity, Manifest, Version};
    use ostar_method::proportions::LabelProportions;

    use super::*;

    fn manifest(events: u64) -> Manifest {
        let identity = Identity {
            bundle_name: "mails".into(),
            classes: vec!["ham".into(), "spam".into()],
            ..Identity::default()
        };
        let proportions = LabelProportions::new(vec![0.75, 0.25]).unwrap();
        let version = Version { epoch: 2, step: 7 };
        let mut manifest = Manifest::new(version, identity, proportions);
        manifest.position.events = events;
        manifest
    }

    #[test]
    fn checkpoints_are_listed_newest_first_and_shown_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = CheckpointStore::open(folder.path(), 3).unwrap();
        let lock = store.try_lock().unwrap().unwrap();
        lock.write(&manifest(500), b"one").unwrap();
        let newest = lock.write(&manifest(1000), b"two").unwrap();
        let listed = list(folder.path()).unwrap();
        let lines: Vec<_> = listed.lines().collect();
        assert_eq!(lines.len(), 2);
        let name = newest.file_name().unwrap().to_str().unwrap();
        assert_eq!(
            lines[0],
            format!("{name}  epoch 2  step 7  events 1000  mails  ham 0.750  spam 0.250")
        );
        assert!(lines[1].contains("events 500"));
        let shown = show(folder.path(), Some(name)).unwrap();
        assert_eq!(shown, show(folder.path(), None).unwrap());
        assert!(shown.contains("\"events\": 1000"));
        std::fs::write(newest.join("state.safetensors"), b"torn").unwrap();
        let listed = list(folder.path()).unwrap();
        assert!(
            listed.lines().next().unwrap().contains("is damaged"),
            "{listed}"
        );
    }

    #[test]
    fn a_folder_that_is_not_there_is_named_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("state");
        let refused = list(&missing).unwrap_err().to_string();
        assert!(refused.ends_with("is not a folder, expected the daemon's checkpoints.folder"));
        assert!(!missing.exists());
    }
}
