//! The bearer token, from a file that may change.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use subtle::ConstantTimeEq;
use tracing::{info, warn};

/// Shortest time between two reads of the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A token from a file, which is read again while the daemon runs. No `Debug`: the token must not get into logs.
pub(crate) struct TokenFile {
    path: PathBuf,
    look_every: Duration,
    held: Mutex<Held>,
}

struct Held {
    token: String,
    looked: Instant,
}

impl TokenFile {
    /// Reads the token. Fails if the file is missing or empty: the daemon must not start without protection.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        Self::open_looking_every(path, LOOK_EVERY)
    }

    pub(crate) fn open_looking_every(path: &Path, look_every: Duration) -> anyhow::Result<Self> {
        let token = read(path).context("auth.token_file")?;
        let held = Held {
            token,
            looked: Instant::now(),
        };
        Ok(Self {
            path: path.to_owned(),
            look_every,
            held: Mutex::new(held),
        })
    }

    /// Whether an `authorization` header carries the token. Takes the same time wherever a wrong token differs.
    pub(crate) fn admits(&self, header: Option<&[u8]>) -> bool {
        let Some((scheme, shown)) = header.and_then(|header| header.split_at_checked(7)) else {
            return false;
        };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.looked.elapsed() >= self.look_every {
            self.look(&mut held);
        }
        let same = shown.ct_eq(held.token.as_bytes());
        scheme.eq_ignore_ascii_case(b"bearer ") && same.into()
    }

    /// Reads the file again. If that fails, the old token stays valid: the file may be about to be replaced.
    fn look(&self, held: &mut Held) {
        held.looked = Instant::now();
        match read(&self.path) {
            Ok(token) if token == held.token => (),
            Ok(token) => {
                info!(path = %self.path.display(), "bearer token changed");
                held.token = token;
            }
            Err(error) => {
                warn!(error = %crate::error_text::one_line(&error), "cannot read auth.token_file, the old token stays valid")
            }
        }
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the token from {}", path.display()))?;
    let token = text.trim();
    if token.is_empty() {
        bail!("{} is empty, expected a token", path.display());
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_file(text: &str) -> (tempfile::NamedTempFile, TokenFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let token = TokenFile::open_looking_every(file.path(), Duration::ZERO).unwrap();
        (file, token)
    }

    #[test]
    fn only_the_whole_token_is_admitted() {
        let (_file, token) = token_file("secret\n");
        assert!(token.admits(Some(b"Bearer secret")));
        assert!(token.admits(Some(b"bearer secret")));
        for header in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer secre",
            "Bearer secrets",
            "Basic! secret",
            "secret",
        ] {
            assert!(!token.admits(Some(header.as_bytes())), "{header:?}");
        }
        assert!(!token.admits(None));
    }

    #[test]
    fn a_changed_file_changes_the_token_and_a_broken_one_does_not() {
        let (file, token) = token_file("old");
        fs::write(file.path(), "new").unwrap();
        assert!(token.admits(Some(b"Bearer new")));
        assert!(!token.admits(Some(b"Bearer old")));
        fs::write(file.path(), "  \n").unwrap();
        assert!(token.admits(Some(b"Bearer new")));
        fs::remove_file(file.path()).unwrap();
        assert!(token.admits(Some(b"Bearer new")));
    }

    #[test]
    fn a_missing_or_empty_file_is_an_error_with_its_key_and_path() {
        let error = TokenFile::open(Path::new("/nowhere/token")).err().unwrap();
        let text = format!("{error:#}");
        assert!(
            text.starts_with("auth.token_file: cannot read the token from /nowhere/token"),
            "{text}"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = TokenFile::open(file.path()).err().unwrap();
        assert!(format!("{error:#}").ends_with("is empty, expected a token"));
    }
}
