//! `ostard demo`.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Result;
use clap::Args;

use super::serve;
use crate::demo;

/// Shows the daemon at work on a made-up stream of mails, without a broker or files.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Demo {
    /// How long it runs.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Where the live page is served [default: 127.0.0.1:8080, or any free port if that is taken].
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// Seed of the stream and of learning.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Writes the demo's bundle and stream to a folder instead, to try `backtest` and `replay` on.
    #[arg(long, value_name = "FOLDER")]
    export: Option<PathBuf>,
    /// No table: the last line is one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  ostard demo
  ostard demo --http 0.0.0.0:8080
  ostard demo --seconds 60 --seed 3 --json | tail -1
  ostard demo --export mails && ostard backtest --bundle mails/bundle --data mails/stream.jsonl";

impl Demo {
    pub(super) fn execute(self) -> Result<()> {
        let options = demo::Options {
            seconds: self.seconds,
            http: self.http,
            seed: self.seed,
            json: self.json,
        };
        match self.export {
            None => serve(demo::run(options)),
            Some(folder) => demo::export(options, &folder),
        }
    }
}
