//! Checkpoints: the learned state, with the offsets of the events that it was learned from.
//!
//! Each checkpoint is a folder, written under a temporary name, synced and renamed. It is complete unless it was damaged
//! later, which digests detect: a start moves damaged ones aside. A lock on the parent folder admits one writer; any
//! process may read.

mod damaged;
mod files;
mod manifest;
mod position;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use files::{PREFIX, TEMPORARY_PREFIX};
pub(crate) use manifest::{FORMAT_VERSION, read_manifest};
pub use manifest::{Identity, Manifest, Orders, Shares, StateBytes, Version, digest};
use ostar_bundle::{SMALL_FILE, read_text_file};
pub use position::Position;
pub use writer::CheckpointWriter;

/// File in the parent folder with the epoch of the newest writer.
const EPOCH: &str = "epoch";

/// The folder `checkpoints.folder`.
#[derive(Debug, Clone)]
pub struct CheckpointStore {
    folder: PathBuf,
    keep: usize,
}

/// A checkpoint whose digests match.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// What the state was learned from.
    pub manifest: Manifest,
    /// Bytes of `state.safetensors`.
    pub state: Vec<u8>,
    /// Folder of this checkpoint.
    pub path: PathBuf,
}

/// What a start finds.
#[derive(Debug)]
pub struct Newest {
    /// The newest intact checkpoint; `None` if there is none.
    pub checkpoint: Option<Checkpoint>,
    /// What is wrong with those that are newer, the newest first. They were moved aside.
    pub damaged: Vec<StoreError>,
}

/// A checkpoint as `ostard checkpoint list` shows it.
#[derive(Debug)]
pub struct ListedCheckpoint {
    /// Name of its folder.
    pub name: String,
    /// The manifest, or what is wrong with the checkpoint.
    pub manifest: Result<Manifest, StoreError>,
}

/// Why a checkpoint could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the file system failed.
    #[error("cannot {attempt} {}: {problem}", path.display())]
    File {
        /// The operation, as a verb.
        attempt: &'static str,
        /// File or folder of the operation.
        path: PathBuf,
        /// Error of the operating system. Part of the text, so it is not given as the source once more.
        problem: io::Error,
    },
    /// A file of the checkpoint is missing, or its digest does not match.
    #[error("checkpoint {} is damaged: {problem}", path.display())]
    Corrupt {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// Which file, and what is wrong with it.
        problem: String,
    },
    /// A file of the checkpoint is there and cannot be read. The checkpoint may be intact: skipping it would silently fall
    /// back to an older state, or to none.
    #[error(
        "cannot read {}: {problem}; make it readable, or move its folder away to resume from an older checkpoint",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the operating system. Part of the text, so it is not given as the source once more.
        problem: io::Error,
    },
    /// An intact checkpoint that another version wrote. Skipping it would silently fall back to an older state, or to none.
    #[error(
        "checkpoint {} was written by another version: {problem}; use the ostard that wrote it, or move the \
         checkpoint away to resume from an older one",
        path.display()
    )]
    Foreign {
        /// Folder of the checkpoint.
        path: PathBuf,
        /// What this version cannot read.
        problem: String,
    },
    /// Another process has become the writer, although this one holds the lock: somebody removed the lock file.
    #[error(
        "another process writes checkpoints to {}: it has epoch {theirs}, this one has {ours}; never remove the file \
         `lock`",
        folder.display()
    )]
    Superseded {
        /// Folder of the checkpoints.
        folder: PathBuf,
        /// Epoch of this process.
        ours: u64,
        /// Epoch of the newer writer.
        theirs: u64,
    },
    /// No checkpoint of that name.
    #[error("there is no checkpoint {name:?} in {}", folder.display())]
    Unknown {
        /// Name that was asked for.
        name: String,
        /// Folder that was searched.
        folder: PathBuf,
    },
}

// === impl CheckpointStore ===

impl CheckpointStore {
    /// Opens the folder and creates it if needed. Writing keeps the newest `keep` checkpoints, at least one.
    pub fn open(folder: impl Into<PathBuf>, keep: usize) -> Result<Self, StoreError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|source| failed("create", &folder, source))?;
        let keep = keep.max(1);
        Ok(Self { folder, keep })
    }

    /// Folder that holds the checkpoints.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Epoch of the newest writer; 0 if none has claimed one.
    fn claimed_epoch(&self) -> Result<u64, StoreError> {
        let path = self.folder.join(EPOCH);
        match read_text_file(&path, SMALL_FILE) {
            // An unreadable number is as good as none: the next claim replaces it.
            Ok(text) => Ok(text.trim().parse().unwrap_or(0)),
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(problem) => Err(failed("read", &path, problem)),
        }
    }

    /// The newest intact checkpoint; damaged ones are skipped with a warning.
    pub fn newest(&self) -> Result<Option<Checkpoint>, StoreError> {
        self.search(|name, problem| {
            tracing::warn!(checkpoint = name, %problem, "skipped a damaged checkpoint");
        })
    }

    /// The newest intact checkpoint. Reports damaged ones that are newer.
    fn search(
        &self,
        mut on_damaged: impl FnMut(&str, StoreError),
    ) -> Result<Option<Checkpoint>, StoreError> {
        for (_, name) in self.names()?.into_iter().rev() {
            let path = self.folder.join(&name);
            match files::read(&path) {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                // The writer may have removed it between listing and reading.
                Err(_) if matches!(path.try_exists(), Ok(false)) => (),
                Err(problem @ StoreError::Corrupt { .. }) => on_damaged(&name, problem),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The manifest of the newest checkpoint, without its state; `None` if there is none or it cannot be read. Cheap, to
    /// see whether there is a new one.
    pub fn newest_manifest(&self) -> Result<Option<Manifest>, StoreError> {
        let newest = self.names()?.pop();
        Ok(newest.and_then(|(_, name)| files::manifest(&self.folder.join(name)).ok()))
    }

    /// Reads and checks all checkpoints, oldest first.
    pub fn list(&self) -> Result<Vec<ListedCheckpoint>, StoreError> {
        let entry = |(_, name): (u64, String)| {
            let read = files::read(&self.folder.join(&name));
            let manifest = read.map(|checkpoint| checkpoint.manifest);
            ListedCheckpoint { name, manifest }
        };
        Ok(self.names()?.into_iter().map(entry).collect())
    }

    /// Reads one checkpoint by the name of its folder.
    pub fn show(&self, name: &str) -> Result<Checkpoint, StoreError> {
        // Only known names are joined to the path: `name` may be "../elsewhere".
        if !self.names()?.iter().any(|(_, known)| known == name) {
            return Err(StoreError::Unknown {
                name: name.to_owned(),
                folder: self.folder.clone(),
            });
        }
        files::read(&self.folder.join(name))
    }

    /// Sequence numbers and names of all checkpoints, oldest first, intact or not.
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

fn failed(attempt: &'static str, path: &Path, problem: io::Error) -> StoreError {
    StoreError::File {
        attempt,
        path: path.into(),
        problem,
    }
}
