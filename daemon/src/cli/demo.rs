//! `ostard demo`.

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
};

use anyhow::Result;
use clap::Args;
use ostar_engine::Device;

use super::serve;
use crate::{current::ServingMode, demo};

/// Run the daemon on a synthetic stream of mails, without a broker or files.
///
/// Prints the address of the live page first. Three acts: nothing moves; the share of spam trebles, and predictions
/// follow without labels; mails change, correction alone would lose, and labels open the adapted model. The demo answers
/// the labels that the daemon asks for, ten a block.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Demo {
    /// How long the stream lasts.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Address of the live page. Without it, the default of http.listen, or any free port if that one is taken.
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// Seed of the stream and of the learner.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What is served.
    #[arg(long, value_enum, default_value_t = ServingMode::Auto)]
    mode: ServingMode,
    /// Where the learner works: cpu, candle or cuda:N. `ostard devices` lists what there is.
    #[arg(long, default_value_t = Device::Cpu)]
    device: Device,
    /// Write the demo's bundle and stream to a folder instead of running, for `backtest` and `replay`.
    #[arg(long, value_name = "FOLDER")]
    export: Option<PathBuf>,
    /// Print one JSON object at the end. The table goes to the standard error.
    #[arg(long)]
    json: bool,
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
        let options = demo::Options {
            seconds: self.seconds,
            http: self.http,
            seed: self.seed,
            mode: self.mode,
            device: self.device,
            json: self.json,
        };
        match self.export {
            None => serve(async move |mut signals| demo::run(options, &mut signals).await),
            Some(folder) => {
                let written = demo::export(options, &folder)?;
                write!(io::stdout(), "{written}")?;
                Ok(())
            }
        }
    }
}
