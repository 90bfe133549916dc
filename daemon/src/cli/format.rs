//! Output as a table or as JSON.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};

pub(super) use crate::table::Table;

/// How answers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Aligned columns, for people.
    Table,
    /// One JSON object per line, for programs.
    Json,
}

#[derive(Debug, Clone, Args)]
pub(super) struct FormatArgs {
    /// How answers are printed. Without it, a table on a terminal and JSON elsewhere.
    #[arg(long)]
    pub(super) format: Option<Format>,
}

// === impl FormatArgs ===

impl FormatArgs {
    pub(super) fn choose(&self) -> Format {
        self.format.unwrap_or_else(|| {
            if std::io::stdout().is_terminal() {
                Format::Table
            } else {
                Format::Json
            }
        })
    }
}
