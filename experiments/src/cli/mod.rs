//! The command line.

mod ablation;
mod digits;
mod features;
mod progress;
mod queue;
pub(crate) mod stream;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::{method::Method, report};

#[derive(Debug, Parser)]
#[command(
    name = "ostar-experiments",
    about = "The OSTAR paper's tables and streaming scenarios, every method side by side",
    after_help = "Examples:
  ostar-experiments digits --data data --setting m2u-high --method source,ostar+im --scale paper --resume
  ostar-experiments digits --data data --seeds 3 --resume
  ostar-experiments stream --data data --set enron --seeds 3 --resume
  ostar-experiments report"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// MNIST and USPS, both ways, with three label shifts.
    Digits(digits::Options),
    /// Pairs of domains from feature files.
    Features(features::Options),
    /// Real data replayed in order: frozen, prior-corrected and adapted.
    Stream(stream::Options),
    /// lambda_OT, initial gain and terms of the bound, on MNIST to USPS.
    Ablation(ablation::Options),
    /// Writes tables and plots from results files.
    Report(report::Options),
}

/// What all experiments take.
#[derive(Debug, Args)]
struct Common {
    /// Folder with the data files.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Seeds, from 0.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Go on with a results file that has lines already; what is in it is not run again.
    #[arg(long)]
    resume: bool,
    /// Threads of the engine.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Where results are appended [default: docs/results/EXPERIMENT.csv].
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

impl Common {
    fn results(&self, experiment: &str) -> PathBuf {
        let default = || PathBuf::from(format!("docs/results/{experiment}.csv"));
        self.results.clone().unwrap_or_else(default)
    }
}

/// Methods, by name; all without one.
fn methods(names: &[Method]) -> Vec<Method> {
    match names {
        [] => Method::ALL.to_vec(),
        names => names.to_vec(),
    }
}

/// Runs what the arguments say.
pub fn run() -> Result<()> {
    match Cli::parse().command {
        Command::Digits(options) => digits::run(&options),
        Command::Features(options) => features::run(&options),
        Command::Stream(options) => stream::run(&options),
        Command::Ablation(options) => ablation::run(&options),
        Command::Report(options) => report::run(&options),
    }
}
