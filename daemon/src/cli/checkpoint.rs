//! `ostard checkpoint`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

/// Looks into a folder of checkpoints, also while a daemon writes to it.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// Lists the checkpoints, newest first.
    List {
        /// Folder of the checkpoints.
        folder: PathBuf,
    },
    /// Shows what one holds.
    Show {
        /// Folder of the checkpoints.
        folder: PathBuf,
        /// Its name, as `list` shows it; the newest if there is none.
        name: Option<String>,
    },
}

const EXAMPLES: &str = "\
Examples:
  ostard checkpoint list state
  ostard checkpoint show state checkpoint-00000012";

impl Command {
    pub(super) fn execute(self) -> Result<()> {
        anyhow::bail!("not built yet");
    }
}
