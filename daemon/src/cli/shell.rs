//! `ostard completions` and `ostard man`: files that a package installs beside the program.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;

/// Print the completion script of a shell.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(super) struct Completions {
    /// Shell to complete in.
    shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(ostard completions bash)
  ostard completions zsh > ~/.zfunc/_ostard
  ostard completions fish > ~/.config/fish/completions/ostard.fish";

/// Print the manual page, or write the pages of all commands to a folder.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(super) struct Man {
    /// Existing folder for the pages of all commands.
    folder: Option<PathBuf>,
}

const MAN_EXAMPLES: &str = "\
Examples:
  ostard man | man -l -
  ostard man /usr/local/share/man/man1";

impl Completions {
    pub(super) fn execute(self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "ostard", &mut script);
        io::stdout().write_all(&script)?;
        Ok(())
    }
}

impl Man {
    pub(super) fn execute(self) -> Result<()> {
        match self.folder {
            Some(folder) => clap_mangen::generate_to(Cli::command(), &folder).with_context(|| {
                let folder = folder.display();
                format!("cannot write the manual pages to {folder}, expected a folder that exists")
            }),
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(Cli::command()).render(&mut page)?;
                Ok(io::stdout().write_all(&page)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_manual_page_and_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let man = Man {
            folder: Some(folder.path().to_owned()),
        };
        man.execute().unwrap();
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::command(), "ostard", &mut script);
        let script = String::from_utf8(script).unwrap();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = folder.path().join(format!("ostard-{name}.1"));
            let page = std::fs::read_to_string(page).unwrap();
            assert!(page.contains("Examples:"), "{name}: {page}");
            assert!(
                script.contains(&format!("ostard__subcmd__{name}")),
                "{name}: {script}"
            );
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let man = Man {
            folder: Some("/nowhere/man1".into()),
        };
        let refused = man.execute().unwrap_err().to_string();
        assert!(
            refused.contains("/nowhere/man1, expected a folder"),
            "{refused}"
        );
    }
}
