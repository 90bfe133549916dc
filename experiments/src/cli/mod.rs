//! The command line of `ostar-experiments`.

mod ablation;
pub(crate) mod alarms;
mod clicks;
mod digits;
pub(crate) mod digits_stream;
mod features;
pub(crate) mod gate;
mod progress;
mod queue;
pub(crate) mod shares;
pub(crate) mod stream;
mod training;

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
  ostar-experiments digits-stream --data data --seeds 1
  ostar-experiments gate --data data --suite bank,exact,failures --seeds 3 --resume
  ostar-experiments shares --data data --suite bank,enron,failures --seeds 3 --resume
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
    /// The daemon's learner on latents of digits: USPS streamed after MNIST, or the other way.
    DigitsStream(digits_stream::Options),
    /// Every pair of domains of a feature file.
    Features(features::Options),
    /// Real data replayed in order through the frozen, the prior-corrected and the adapted model.
    Stream(stream::Options),
    /// What mode auto serves, on streams where label shift explains the target and where it does not.
    Gate(gate::Options),
    /// Class shares by labels of randomly drawn rows, on streams where they cannot be told otherwise.
    Shares(shares::Options),
    /// False alarms on simulated streams that do not change, and how soon a jump is told.
    Alarms(alarms::Options),
    /// Clicks in time order: only clicks are labelled, their absence comes by waiting.
    Clicks(clicks::Options),
    /// lambda_OT, initial gain and terms of the bound, on MNIST to USPS.
    Ablation(ablation::Options),
    /// Writes tables and plots from results files.
    Report(report::Options),
}

/// Flags of every experiment.
#[derive(Debug, Args)]
struct Common {
    /// Folder with the data files.
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// How many seeds to run, from 0 on.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Continue a results file that has lines already; runs in it are not repeated.
    #[arg(long)]
    resume: bool,
    /// Threads of the CPU engine.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// File that results are appended to [default: experiments/results/EXPERIMENT.csv].
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
}

impl Common {
    fn results(&self, experiment: &str) -> PathBuf {
        let default = || PathBuf::from(format!("experiments/results/{experiment}.csv"));
        self.results.clone().unwrap_or_else(default)
    }
}

/// The methods asked for, or all.
fn methods(chosen: &[Method]) -> Vec<Method> {
    match chosen {
        [] => Method::ALL.to_vec(),
        chosen => chosen.to_vec(),
    }
}

/// Parses the arguments and runs the experiment they name.
pub fn run() -> Result<()> {
    match Cli::parse().command {
        Command::Digits(options) => digits::run(&options),
        Command::DigitsStream(options) => digits_stream::run(&options),
        Command::Features(options) => features::run(&options),
        Command::Stream(options) => stream::run(&options),
        Command::Gate(options) => gate::run(&options),
        Command::Shares(options) => shares::run(&options),
        Command::Alarms(options) => alarms::run(&options),
        Command::Clicks(options) => clicks::run(&options),
        Command::Ablation(options) => ablation::run(&options),
        Command::Report(options) => report::run(&options),
    }
}
