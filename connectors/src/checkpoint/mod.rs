//! Checkpoints: what is learned, with the offsets of the events that it was learned from.
//!
//! A folder a checkpoint, written beside, synced and renamed, so that one which exists is whole or was damaged
//! later; digests tell. One process writes, by a lock on the folder; any number may read.

mod files;
mod manifest;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

pub use files::digest;
use files::{PREFIX, TEMPORARY_PREFIX};
pub use manifest::{MANIFEST_FORMAT_VERSION, Manifest};

/// Name of the file in the folder that the writer holds locked.
const LOCK: &str = "lock";

/// A folder of checkpoints.
#[derive(Debug, Clone)]
pub struct CheckpointStore {
    folder: PathBuf,
    keep: usize,
}

/// The right to write, until it is dropped or the process ends, however it ends.
#[derive(Debug)]
pub struct WriterLock {
    folder: PathBuf,
    /// Closing it unlocks.
    _file: File,
}

/// A checkpoint that has passed its checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What it says of the state.
    pub manifest: Manifest,
    /// `state.safetensors`.
    pub state: Vec<u8>,
    /// Its folder.
    pub path: PathBuf,
}

/// A checkpoint as `checkpoint list` shows it.
#[derive(Debug)]
pub struct Entry {
    /// Its folder's name.
    pub name: String,
    /// What it says, or what is wrong with it.
    pub manifest: Result<Manifest, StoreError>,
}

/// What can go wrong with checkpoints.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused.
    #[error("cannot {attempt} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb.
        attempt: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A torn or damaged checkpoint.
    #[error("checkpoint {} is damaged: {problem}", path.display())]
    Corrupt {
        /// Its folder.
        path: PathBuf,
        /// What does not fit.
        problem: String,
    },
    /// A checkpoint of a newer version, which must not be passed over: the state would fall back unnoticed.
    #[error(
        "checkpoint {} has format version {found}, this version reads {MANIFEST_FORMAT_VERSION}; use the newer \
         ostard, or move the checkpoint away to go on from an older one",
        path.display()
    )]
    Newer {
        /// Its folder.
        path: PathBuf,
        /// Its format version.
        found: u32,
    },
    /// No checkpoint of that name.
    #[error("there is no checkpoint {name:?} in {}", folder.display())]
    Unknown {
        /// The name asked for.
        name: String,
        /// Where it was looked for.
        folder: PathBuf,
    },
}

// === impl CheckpointStore ===

impl CheckpointStore {
    /// Opens the folder, and makes it if it is not there. The newest `keep` checkpoints stay, at least one.
    pub fn open(folder: impl Into<PathBuf>, keep: usize) -> Result<Self, StoreError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|source| failed("create", &folder, source))?;
        let keep = keep.max(1);
        Ok(Self { folder, keep })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Becomes the writer, and clears away what a writer left that was killed at work. `None` while another
    /// process (or another lock of this one) is the writer.
    pub fn try_lock(&self) -> Result<Option<WriterLock>, StoreError> {
        let path = self.folder.join(LOCK);
        let opened = File::options().create(true).append(true).open(&path);
        let file = opened.map_err(|source| failed("open", &path, source))?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path, source)),
        }
        self.remove_temporary()?;
        Ok(Some(WriterLock {
            folder: self.folder.clone(),
            _file: file,
        }))
    }

    /// Writes a checkpoint and removes the oldest ones beyond what is kept. It is on disk when this returns. The
    /// manifest's `format_version`, `created_at_ms` and `state_digest` are set here.
    pub fn write(
        &self,
        lock: &WriterLock,
        manifest: &Manifest,
        state: &[u8],
    ) -> Result<PathBuf, StoreError> {
        debug_assert_eq!(lock.folder, self.folder, "a lock is of one folder");
        let names = self.names()?;
        let sequence = names.last().map_or(1, |(sequence, _)| sequence + 1);
        let path = files::write(&self.folder, sequence, manifest, state)?;
        // The new one is not in `names`.
        let surplus = (names.len() + 1).saturating_sub(self.keep);
        for (_, name) in &names[..surplus] {
            let old = self.folder.join(name);
            fs::remove_dir_all(&old).map_err(|source| failed("remove", &old, source))?;
        }
        Ok(path)
    }

    /// The newest checkpoint that is whole; damaged ones are passed over with a warning.
    pub fn newest(&self) -> Result<Option<Checkpoint>, StoreError> {
        for (_, name) in self.names()?.into_iter().rev() {
            let path = self.folder.join(&name);
            match files::read(&path) {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                // The writer may have removed it between listing and reading.
                Err(_) if !path.exists() => (),
                Err(error @ StoreError::Corrupt { .. }) => {
                    tracing::warn!(checkpoint = name, %error, "passed over a damaged checkpoint");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The epoch of a learner that starts now: one after the newest checkpoint's.
    pub fn next_epoch(&self) -> Result<u64, StoreError> {
        let newest = self.newest()?;
        Ok(newest.map_or(1, |checkpoint| checkpoint.manifest.epoch + 1))
    }

    /// All checkpoints, oldest first, checked.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let entry = |(_, name): (u64, String)| {
            let read = files::read(&self.folder.join(&name));
            let manifest = read.map(|checkpoint| checkpoint.manifest);
            Entry { name, manifest }
        };
        Ok(self.names()?.into_iter().map(entry).collect())
    }

    /// One checkpoint by its folder's name.
    pub fn show(&self, name: &str) -> Result<Checkpoint, StoreError> {
        match self.names()?.iter().any(|(_, known)| known == name) {
            true => files::read(&self.folder.join(name)),
            false => Err(StoreError::Unknown {
                name: name.to_owned(),
                folder: self.folder.clone(),
            }),
        }
    }

    /// Checkpoints by sequence, oldest first, whole or not.
    fn names(&self) -> Result<Vec<(u64, String)>, StoreError> {
        let numbered = |name: String| {
            let sequence = name.strip_prefix(PREFIX)?.parse().ok()?;
            Some((sequence, name))
        };
        let mut names: Vec<_> = self.entries()?.into_iter().filter_map(numbered).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn remove_temporary(&self) -> Result<(), StoreError> {
        for name in self.entries()? {
            if name.starts_with(TEMPORARY_PREFIX) {
                let path = self.folder.join(name);
                fs::remove_dir_all(&path).map_err(|source| failed("remove", &path, source))?;
            }
        }
        Ok(())
    }

    fn entries(&self) -> Result<Vec<String>, StoreError> {
        let list = || -> io::Result<Vec<String>> {
            let names = fs::read_dir(&self.folder)?;
            let name = |entry: io::Result<fs::DirEntry>| {
                entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
            };
            names.map(name).collect()
        };
        list().map_err(|source| failed("list", &self.folder, source))
    }
}

fn failed(attempt: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File {
        attempt,
        path: path.into(),
        source,
    }
}
