//! `ostard demo`.

use anyhow::Result;
use clap::Args;

/// Shows the daemon at work on a made-up stream of mails, without a broker or files.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Demo {
    /// How long it runs.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the stream and of learning.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// No table: the last line is one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  ostard demo
  ostard demo --seconds 60 --seed 3 --json | tail -1";

impl Demo {
    pub(super) fn execute(self) -> Result<()> {
        anyhow::bail!("not built yet");
    }
}
