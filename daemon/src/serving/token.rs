//! Bearer tokens by role, from files that may change.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use subtle::{Choice, ConstantTimeEq};
use tokio::{sync::watch, task::spawn_blocking, time::interval};
use tracing::{info, warn};

use crate::{config::AuthSettings, error_text::one_line, health::Health};

/// Shortest time between two reads of a file.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Predictions, the state and the live page.
    Predict,
    /// `/metrics` and `/state`.
    Metrics,
    /// Orders.
    Control,
}

/// All token files. A role without a file, its own or that for all, is open. The tokens of control are good for every
/// role.
pub(crate) struct Tokens {
    all: Option<TokenFile>,
    predict: Option<TokenFile>,
    metrics: Option<TokenFile>,
    control: Option<TokenFile>,
}

/// Tokens from a file, which is read again while the daemon runs. No `Debug`: tokens must not get into logs.
struct TokenFile {
    key: &'static str,
    path: PathBuf,
    look_every: Duration,
    held: Mutex<Held>,
}

struct Held {
    tokens: Vec<String>,
    looked: Instant,
    /// Why the file could not be read the last time.
    problem: Option<String>,
}

// === impl Tokens ===

impl Tokens {
    /// Reads all files, and again when a caller comes after `look_every`. Fails if one is missing or empty: the daemon must not start without protection.
    pub(crate) fn open(settings: &AuthSettings, look_every: Duration) -> Result<Arc<Self>> {
        let [all, predict, metrics, control] = settings.files().map(|(key, path)| {
            let file = path.map(|path| TokenFile::open(key, path, look_every));
            file.transpose()
        });
        Ok(Arc::new(Self {
            all: all?,
            predict: predict?,
            metrics: metrics?,
            control: control?,
        }))
    }

    /// Whether the role asks for a token.
    pub(crate) fn guards(&self, role: Role) -> bool {
        self.all.is_some() || self.own(role).is_some()
    }

    /// Whether an `authorization` header is good for the role. Takes the same time wherever a wrong token differs.
    pub(crate) fn admit(&self, role: Role, header: Option<&[u8]>) -> bool {
        if !self.guards(role) {
            return true;
        }
        let files = [&self.all, self.own(role), &self.control];
        files.into_iter().flatten().any(|file| file.admits(header))
    }

    /// Whether nothing asks for a token, or the header is good for any role.
    pub(crate) fn trusts(&self, header: Option<&[u8]>) -> bool {
        let mut files = self.files().peekable();
        files.peek().is_none() || files.any(|file| file.admits(header))
    }

    /// Looks at the files even if nobody calls, until the daemon stops, and tells of those that cannot be used.
    pub(crate) async fn follow(
        self: Arc<Self>,
        health: Arc<Health>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut looks = interval(LOOK_EVERY);
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
            let this = Arc::clone(&self);
            let problem = spawn_blocking(move || this.files().find_map(TokenFile::problem));
            match problem.await {
                Ok(Some(problem)) => health.set_condition("tokens", problem),
                Ok(None) | Err(_) => health.clear("tokens"),
            }
        }
    }

    fn own(&self, role: Role) -> &Option<TokenFile> {
        match role {
            Role::Predict => &self.predict,
            Role::Metrics => &self.metrics,
            Role::Control => &self.control,
        }
    }

    fn files(&self) -> impl Iterator<Item = &TokenFile> {
        let files = [&self.all, &self.predict, &self.metrics, &self.control];
        files.into_iter().flatten()
    }
}

// === impl TokenFile ===

impl TokenFile {
    fn open(key: &'static str, path: &Path, look_every: Duration) -> Result<Self> {
        let tokens = AuthSettings::read_tokens(path).context(key)?;
        let held = Held {
            tokens,
            looked: Instant::now(),
            problem: None,
        };
        Ok(Self {
            key,
            path: path.to_owned(),
            look_every,
            held: Mutex::new(held),
        })
    }

    fn admits(&self, header: Option<&[u8]>) -> bool {
        let Some((scheme, shown)) = header.and_then(|header| header.split_at_checked(7)) else {
            return false;
        };
        let mut held = self.held.lock();
        self.look(&mut held);
        // No early end: the time must not tell which token was tried.
        let compare = |same: Choice, token: &String| same | shown.ct_eq(token.as_bytes());
        let same = held.tokens.iter().fold(Choice::from(0), compare);
        scheme.eq_ignore_ascii_case(b"bearer ") && same.into()
    }

    fn problem(&self) -> Option<String> {
        let mut held = self.held.lock();
        self.look(&mut held);
        held.problem.clone()
    }

    /// Reads the file again if that is due. If it fails, the old tokens stay valid: the file may be about to be replaced.
    fn look(&self, held: &mut Held) {
        if held.looked.elapsed() < self.look_every {
            return;
        }
        held.looked = Instant::now();
        match AuthSettings::read_tokens(&self.path) {
            Ok(tokens) => {
                held.problem = None;
                if tokens != held.tokens {
                    let count = tokens.len();
                    info!(key = self.key, path = %self.path.display(), count, "bearer tokens changed");
                    held.tokens = tokens;
                }
            }
            Err(error) => {
                let problem = one_line(&error.context(self.key));
                if held.problem.is_none() {
                    warn!(error = %problem, "cannot read bearer tokens, the old ones stay valid");
                }
                held.problem = Some(format!("{problem}; the old tokens stay valid"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn token_file(text: &str) -> (tempfile::NamedTempFile, TokenFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        let token = TokenFile::open("auth.token_file", file.path(), Duration::ZERO).unwrap();
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
        // Both are valid while callers change.
        fs::write(file.path(), "new\nold\n").unwrap();
        assert!(token.admits(Some(b"Bearer new")));
        assert!(token.admits(Some(b"Bearer old")));
        fs::write(file.path(), "new").unwrap();
        assert!(token.admits(Some(b"Bearer new")));
        assert!(!token.admits(Some(b"Bearer old")));
        assert!(!token.admits(Some(b"Bearer new\nold")));
        fs::write(file.path(), "  \n").unwrap();
        assert!(token.admits(Some(b"Bearer new")));
        fs::remove_file(file.path()).unwrap();
        assert!(token.admits(Some(b"Bearer new")));
        let problem = token.problem().unwrap();
        assert!(
            problem.starts_with("auth.token_file: cannot read"),
            "{problem}"
        );
        fs::write(file.path(), "new").unwrap();
        assert_eq!(token.problem(), None);
    }

    #[test]
    fn a_missing_or_empty_file_is_an_error_with_its_key_and_path() {
        let open = |path: &Path| {
            let settings = AuthSettings {
                metrics_token_file: Some(path.to_owned()),
                ..AuthSettings::default()
            };
            format!("{:#}", Tokens::open(&settings, LOOK_EVERY).err().unwrap())
        };
        let text = open(Path::new("/nowhere/token"));
        assert!(
            text.starts_with("auth.metrics_token_file: cannot read the token from /nowhere/token"),
            "{text}"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(open(file.path()).ends_with("is empty, expected a token"));
    }

    #[test]
    fn a_role_is_open_without_a_file_and_the_tokens_of_control_are_good_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            Some(path)
        };
        let mut settings = AuthSettings {
            metrics_token_file: write("scrape"),
            control_token_file: write("operate"),
            ..AuthSettings::default()
        };
        let tokens = Tokens::open(&settings, LOOK_EVERY).unwrap();
        assert!(tokens.admit(Role::Predict, None), "no file guards it");
        assert!(!tokens.admit(Role::Metrics, None));
        assert!(tokens.admit(Role::Metrics, Some(b"Bearer scrape")));
        assert!(tokens.admit(Role::Metrics, Some(b"Bearer operate")));
        assert!(!tokens.admit(Role::Control, Some(b"Bearer scrape")));
        assert!(tokens.admit(Role::Control, Some(b"Bearer operate")));
        assert!(!tokens.trusts(None) && tokens.trusts(Some(b"Bearer scrape")));
        settings.token_file = write("everything");
        let tokens = Tokens::open(&settings, LOOK_EVERY).unwrap();
        assert!(!tokens.admit(Role::Predict, Some(b"Bearer scrape")));
        for role in [Role::Predict, Role::Metrics, Role::Control] {
            assert!(tokens.admit(role, Some(b"Bearer everything")));
            assert!(tokens.admit(role, Some(b"Bearer operate")));
        }
    }
}
