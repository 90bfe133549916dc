//! The one writer of a folder.

use std::{
    fs::{self, File, TryLockError},
    path::PathBuf,
};

use super::{CheckpointStore, EPOCH, Manifest, Newest, StoreError, failed, files};

/// File in the parent folder that the writer locks.
const LOCK: &str = "lock";

/// The right to write to a folder. Released by drop, and by the kernel when the process ends in any way.
#[derive(Debug)]
pub struct CheckpointWriter {
    store: CheckpointStore,
    /// Holds the lock until it is closed.
    _lock: File,
}

impl CheckpointStore {
    /// Becomes the writer and removes what a killed writer left behind. `None` while another process, or another lock
    /// of this one, is the writer.
    pub fn try_lock(&self) -> Result<Option<CheckpointWriter>, StoreError> {
        let path = self.folder.join(LOCK);
        let opened = File::options().create(true).append(true).open(&path);
        let file = opened.map_err(|source| failed("open", &path, source))?;
        match file.try_lock() {
            Ok(()) => (),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path, source)),
        }
        self.remove_temporary()?;
        Ok(Some(CheckpointWriter {
            store: self.clone(),
            _lock: file,
        }))
    }
}

impl CheckpointWriter {
    /// The folder, for those who read.
    pub fn store(&self) -> &CheckpointStore {
        &self.store
    }

    /// Takes the next epoch for this writer: one more than any before, and than `newest`. Writers of older epochs are
    /// refused from now on.
    pub fn claim_epoch(&self, newest: u64) -> Result<u64, StoreError> {
        let store = &self.store;
        let epoch = store.claimed_epoch()?.max(newest) + 1;
        let path = store.folder.join(EPOCH);
        files::replace(&store.folder, EPOCH, format!("{epoch}\n").as_bytes())
            .map_err(|problem| failed("write", &path, problem))?;
        Ok(epoch)
    }

    /// Writes a checkpoint durably, then removes the oldest ones beyond `keep`, or moves them aside if they are damaged. The
    /// manifest is [sealed](Manifest::sealed) with the state.
    pub fn write(&self, manifest: &Manifest, state: &[u8]) -> Result<PathBuf, StoreError> {
        let store = &self.store;
        let theirs = store.claimed_epoch()?;
        let ours = manifest.version.epoch;
        if theirs > ours {
            return Err(StoreError::Superseded {
                folder: store.folder.clone(),
                ours,
                theirs,
            });
        }
        let names = store.names()?;
        let sequence = store.next_number()?;
        let path = files::write(&store.folder, sequence, manifest, state)?;
        // `names` was read before the new one was written.
        let surplus = (names.len() + 1).saturating_sub(store.keep);
        for (_, name) in &names[..surplus] {
            let old = store.folder.join(name);
            match files::read(&old) {
                Err(problem @ StoreError::Corrupt { .. }) => store.set_aside(name, &problem),
                _ => fs::remove_dir_all(&old).map_err(|source| failed("remove", &old, source))?,
            }
        }
        Ok(path)
    }

    /// The newest intact checkpoint, to go on from. Damaged ones that are newer are moved aside.
    pub fn resume(&self) -> Result<Newest, StoreError> {
        let store = &self.store;
        let mut damaged = Vec::new();
        let checkpoint = store.search(|name, problem| {
            store.set_aside(name, &problem);
            damaged.push(problem);
        })?;
        Ok(Newest {
            checkpoint,
            damaged,
        })
    }
}
