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
    ExitCode::from(Exit::of(&error) as u8)
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
    }
}
