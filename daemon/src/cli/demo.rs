//! `ostard demo`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::{print, serve};
use crate::demo;

/// Run the daemon on a synthetic stream of mails, without a broker or files.
///
/// Prints the address of the live page first. Three acts: nothing moves; the share of spam trebles, and predictions
/// follow without labels; mails change, correction alone would lose, and labels open the adapted model. The demo answers
/// the labels that the daemon asks for, ten a block.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Demo {
    #[command(flatten)]
    options: demo::Options,
    /// Write the demo's bundle and stream to a folder instead of running, for `backtest` and `replay`.
    #[arg(long, value_name = "FOLDER")]
    export: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  ostard demo
  ostard demo --http 0.0.0.0:8080
  ostard demo --seconds 60 --seed 3 --json | tail -1
  ostard demo --mode adapted
  ostard demo --export mails && ostard backtest --bundle mails/bundle --data mails/stream.jsonl";

impl Demo {
    pub(super) fn execute(self) -> Result<()> {
        let options = self.options;
        match self.export {
            None => serve(async move |mut signals| demo::run(options, &mut signals).await),
            Some(folder) => print(&demo::export(options, &folder)?),
        }
    }
}
