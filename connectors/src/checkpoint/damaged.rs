//! Damaged checkpoints are moved aside: rotation must not remove what somebody may want to look at, or to save.

use std::{fs, io};

use super::{CheckpointStore, StoreError, failed, files};

/// Prefix of the folder of a damaged checkpoint; the number that it had follows.
pub(super) const PREFIX: &str = "damaged-";
/// Most that are kept. The first ones stay, because they hold the most of what was learned; later ones are removed with
/// a warning. While there are any, the daemon has a condition.
const MOST: usize = 10;

impl CheckpointStore {
    /// Names of the damaged checkpoints that were moved aside, oldest first.
    pub fn damaged(&self) -> Result<Vec<String>, StoreError> {
        let names = self.entries()?.into_iter();
        let mut names: Vec<_> = names.filter(|name| number(name).is_some()).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// The number after the last one that any checkpoint has or had.
    pub(super) fn next_number(&self) -> Result<u64, StoreError> {
        let newest = self.names()?.last().map(|(sequence, _)| *sequence);
        let damaged = self.damaged()?;
        let damaged = damaged.iter().filter_map(|name| number(name)).max();
        Ok(newest.max(damaged).map_or(1, |newest| newest + 1))
    }

    /// Moves a damaged checkpoint aside. One that cannot be moved stays where it is, and is tried again when it is the
    /// oldest.
    pub(super) fn set_aside(&self, name: &str, problem: &StoreError) {
        match self.try_set_aside(name) {
            Ok(Some(kept)) => {
                tracing::warn!(checkpoint = name, %problem, kept, "moved a damaged checkpoint aside");
            }
            Ok(None) => tracing::warn!(
                checkpoint = name,
                %problem,
                most = MOST,
                "removed a damaged checkpoint: the folder keeps as many already as it may"
            ),
            Err(error) => {
                tracing::error!(checkpoint = name, %problem, %error, "cannot move a damaged checkpoint aside");
            }
        }
    }

    /// The name under which it is kept; `None` if it was removed.
    fn try_set_aside(&self, name: &str) -> Result<Option<String>, StoreError> {
        let path = self.folder.join(name);
        if self.damaged()?.len() >= MOST {
            fs::remove_dir_all(&path).map_err(|problem| failed("remove", &path, problem))?;
            return Ok(None);
        }
        let kept = self.free_name(name.trim_start_matches(files::PREFIX));
        let moved = fs::rename(&path, self.folder.join(&kept));
        let moved = moved.and_then(|()| files::sync_folder(&self.folder));
        moved.map_err(|problem| failed("rename", &path, problem))?;
        Ok(Some(kept))
    }

    /// Somebody may have put a folder of that name there, or an earlier checkpoint back.
    fn free_name(&self, sequence: &str) -> String {
        let plain = format!("{PREFIX}{sequence}");
        let others = (2..).map(|copy| format!("{plain}-{copy}"));
        let is_free = |name: &String| {
            let found = fs::symlink_metadata(self.folder.join(name));
            found.is_err_and(|problem| problem.kind() == io::ErrorKind::NotFound)
        };
        let names = std::iter::once(plain.clone()).chain(others);
        // Bounded, because a folder that cannot be looked into has no free name. The rename then fails and says why.
        let mut names = names.take(100 * MOST);
        names.find(is_free).unwrap_or(plain)
    }
}

/// The number that a damaged checkpoint had.
fn number(name: &str) -> Option<u64> {
    let rest = name.strip_prefix(PREFIX)?;
    let digits = rest.split_once('-').map_or(rest, |(digits, _)| digits);
    digits.parse().ok()
}
