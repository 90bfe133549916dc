//! Reads domains from files in the `--data` folder; nothing is downloaded.

pub mod arrays;
pub mod bandit;
pub mod bank;
pub mod digits;
pub mod features;
pub mod mail;
pub mod resize;
pub mod tables;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// A file of the data folder, `folder/stem/stem.npz` or `folder/stem.npz`.
pub fn locate(folder: &Path, stem: &str) -> Result<PathBuf> {
    ensure!(
        folder.is_dir(),
        "--data {} is not a folder, expected one that holds {stem}.npz or {stem}/{stem}.npz",
        folder.display()
    );
    let name = format!("{stem}.npz");
    let candidates = [folder.join(stem).join(&name), folder.join(&name)];
    let found = candidates.iter().find(|path| path.is_file());
    match found {
        Some(path) => Ok(path.clone()),
        None => anyhow::bail!(
            "found neither {} nor {}",
            candidates[0].display(),
            candidates[1].display()
        ),
    }
}
