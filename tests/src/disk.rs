//! A small disk, to be filled.

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
