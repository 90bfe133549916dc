//! Disks that do not take what is written: a small one, to be filled, and one that is read-only for a while.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use tempfile::TempDir;

/// A folder on a file system of its own, of eight megabytes.
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// `None` where nothing may be mounted, which needs root.
    pub fn new() -> Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(folder.path())
            .output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        Ok(is_mounted.then_some(Self { folder }))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves no room; returns the file to remove.
    pub fn fill(&self) -> Result<PathBuf> {
        let filler = self.path().join("filler");
        // Fails when the disk is full, which is the purpose.
        let refused = fs::write(&filler, vec![1; 16 << 20]);
        ensure!(refused.is_err(), "the disk took 16 MB");
        Ok(filler)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

/// A folder that cannot be written until this is dropped: it is mounted over itself, read-only. Permissions would not do,
/// because root may write everywhere.
pub struct ReadOnly {
    folder: PathBuf,
}

impl ReadOnly {
    /// `None` where nothing may be mounted, which needs root.
    pub fn new(folder: &Path) -> Result<Option<Self>> {
        let mount = |options: &[&str]| {
            let mounted = Command::new("mount").args(options).arg(folder).output();
            mounted.is_ok_and(|output| output.status.success())
        };
        let itself = folder.display().to_string();
        if !mount(&["--bind", &itself]) {
            return Ok(None);
        }
        let read_only = Self {
            folder: folder.to_owned(),
        };
        ensure!(mount(&["-o", "remount,bind,ro"]), "{itself} stays writable");
        Ok(Some(read_only))
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // Lazily: somebody may be reading.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}
