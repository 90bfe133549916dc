//! How the process ends: what went wrong on the error stream, and a code that scripts can act on.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use crate::{cli::Unanswered, config::Problems};

/// Exit codes, also listed in docs/CLI.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Something failed that was not foreseen by the configuration: trying again may help.
    Failure = 1,
    /// A flag or the configuration is wrong: trying again will not help. clap ends with the same.
    Usage = 2,
    /// A running daemon could not be reached, or refused.
    Unanswered = 3,
}

/// Ends a command: 0 if it went well.
pub(crate) fn report(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // With the error stream gone there is nobody left to tell.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    let exit = Exit::of(&error);
    if let Some(hint) = exit.hint() {
        let _ = writeln!(io::stderr(), "hint: {hint}");
    }
    ExitCode::from(exit as u8)
}

impl Exit {
    fn of(error: &anyhow::Error) -> Self {
        if error.is::<Problems>() {
            Self::Usage
        } else if error.is::<Unanswered>() {
            Self::Unanswered
        } else {
            Self::Failure
        }
    }

    /// What to try, where the error cannot say it itself.
    fn hint(self) -> Option<&'static str> {
        match self {
            Self::Failure => None,
            Self::Usage => Some(
                "`ostard config print` shows every key with its value, `ostard config check` what is wrong",
            ),
            Self::Unanswered => Some(
                "`curl http://HOST:8080/readyz` (http.listen) tells whether the daemon is ready, and if not, why",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_code_tells_whose_fault_it_is_whatever_was_said_on_the_way() {
        let problems = Err::<(), _>(Problems::default()).context("while starting");
        assert_eq!(Exit::of(&problems.unwrap_err()), Exit::Usage);
        assert_eq!(Exit::of(&anyhow::anyhow!("disk full")), Exit::Failure);
        assert!(
            Exit::Usage
                .hint()
                .is_some_and(|hint| hint.contains("config print"))
        );
    }
}
