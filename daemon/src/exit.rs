//! How the process ends: the error on the standard error, and an exit code for scripts.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use ostar_connectors::kafka::state::StateError;

use crate::{
    cli::{Refused, Unanswered, WrongFlag},
    config::Problems,
    error_text::one_line,
};

/// Exit codes, also listed in docs/CLI.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Something failed at run time. Trying again may help.
    Failure = 1,
    /// A flag or the configuration is wrong. Trying again will not help. clap uses the same code.
    Usage = 2,
    /// A running daemon could not be reached, or did not take the call.
    Unanswered = 3,
    /// A running daemon has got the order and could not carry it out.
    Refused = 4,
    /// Another learner has taken over. Started again, this one stands by.
    Superseded = 5,
}

/// Prints the error of a command, if there is one, and returns its exit code.
pub(crate) fn report(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    // If the standard error is closed, there is nowhere to report that.
    let _ = writeln!(io::stderr(), "error: {}", one_line(&error));
    let exit = Exit::of(&error);
    if let Some(hint) = exit.hint(&error) {
        let _ = writeln!(io::stderr(), "hint: {hint}");
    }
    ExitCode::from(exit as u8)
}

impl Exit {
    fn of(error: &anyhow::Error) -> Self {
        if error.is::<Problems>() || error.is::<WrongFlag>() {
            Self::Usage
        } else if error.is::<Unanswered>() {
            Self::Unanswered
        } else if error.is::<Refused>() {
            Self::Refused
        } else if is_superseded(error) {
            Self::Superseded
        } else {
            Self::Failure
        }
    }

    /// The next thing to try, for errors that cannot say it themselves.
    fn hint(self, error: &anyhow::Error) -> Option<&'static str> {
        match self {
            Self::Failure | Self::Refused | Self::Superseded => None,
            Self::Usage => error
                .is::<Problems>()
                .then_some("`ostard config print` prints every key with its value and origin"),
            Self::Unanswered => Some(
                "`curl http://HOST:8080/readyz` (the daemon's http.listen) says whether it is ready, and if not, why",
            ),
        }
    }
}

fn is_superseded(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(StateError::Fenced { .. }))
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_code_tells_whose_fault_it_is_whatever_was_said_on_the_way() {
        let problems = Err::<(), _>(Problems::default()).context("while starting");
        let problems = problems.unwrap_err();
        assert_eq!(Exit::of(&problems), Exit::Usage);
        assert_eq!(Exit::of(&anyhow::anyhow!("disk full")), Exit::Failure);
        let hint = Exit::Usage.hint(&problems);
        assert!(hint.is_some_and(|hint| hint.contains("config print")));
        let flag = anyhow::Error::from(WrongFlag("--address is \"x\"".to_owned()));
        assert_eq!(Exit::of(&flag), Exit::Usage);
        assert_eq!(Exit::Usage.hint(&flag), None);
        let fenced = anyhow::Error::from(StateError::Fenced {
            topic: "state".to_owned(),
            id: "ostard-state".to_owned(),
        });
        assert_eq!(
            Exit::of(&fenced.context("the learner thread failed")),
            Exit::Superseded
        );
    }
}
