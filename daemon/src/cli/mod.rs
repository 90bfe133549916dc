//! The command line.

mod backtest;
mod checkpoint;
mod client;
mod config;
mod ctl;
mod demo;
mod devices;
mod files;
mod fit;
mod format;
mod import;
mod inspect;
mod labels;
mod layers;
mod predict;
mod quality;
mod replay;
mod rows;
mod run;
mod shell;
mod state;
mod topics;

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::shutdown::Signals;

pub(crate) use client::{Refused, Unanswered, WrongFlag};

/// Follows how the classes of a deployed classifier shift, without labels, and serves corrected predictions.
#[derive(Debug, Parser)]
#[command(name = "ostard", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ostard demo                                  try it; needs no broker and no files
  ostard fit --data mails.csv --label spam --out models/spam
  ostard import --onnx model.onnx --data labelled.jsonl --classes no,yes --out models/own
  ostard inspect --topic mails --bundle models/spam   show what each field would get
  ostard run --config ostard.toml              read Kafka, learn and serve
  ostard config check --config ostard.toml     list every problem of a configuration
  ostard state                                 show class shares, shift and what is served
  ostard state --why                           say why it is served
  ostard labels wanted                         list events whose labels would tell which candidate is right
  ostard ctl mode adapted                      change what a running daemon serves
  ostard topics apply --dry-run                topics between scorers and the learner

Exit codes: 0 success, 1 failure, 2 wrong flag or configuration, 3 the daemon did not answer, 4 it could not carry out\nthe order, 5 another learner has taken over.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Demo(demo::Demo),
    Fit(fit::Fit),
    Import(import::Import),
    Backtest(backtest::Backtest),
    Inspect(inspect::Inspect),
    #[command(subcommand)]
    Config(config::Command),
    #[command(subcommand)]
    Checkpoint(checkpoint::Command),
    Devices(devices::Devices),
    Replay(replay::Replay),
    Predict(predict::Predict),
    State(state::ShowState),
    #[command(subcommand)]
    Labels(labels::Command),
    Ctl(ctl::Ctl),
    #[command(subcommand)]
    Topics(topics::Command),
    Completions(shell::Completions),
    Man(shell::Man),
}

impl Cli {
    pub(crate) fn execute(self) -> Result<()> {
        match self.command {
            Command::Run(run) => run.execute(),
            Command::Demo(demo) => demo.execute(),
            Command::Fit(fit) => fit.execute(),
            Command::Import(import) => import.execute(),
            Command::Backtest(backtest) => backtest.execute(),
            Command::Inspect(inspect) => inspect.execute(),
            Command::Config(command) => command.execute(),
            Command::Checkpoint(command) => command.execute(),
            Command::Devices(devices) => devices.execute(),
            Command::Replay(replay) => replay.execute(),
            Command::Predict(predict) => predict.execute(),
            Command::State(state) => state.execute(),
            Command::Labels(command) => command.execute(),
            Command::Ctl(ctl) => ctl.execute(),
            Command::Topics(command) => command.execute(),
            Command::Completions(completions) => completions.execute(),
            Command::Man(man) => man.execute(),
        }
    }
}

/// Prints the answer of a command.
fn print(text: &str) -> Result<()> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// Runs a process until a signal, on a runtime with one thread per core. Signals are listened for before any work begins, so
/// that a stop is a clean one from the first moment.
fn serve<W: Future<Output = Result<()>>>(work: impl FnOnce(Signals) -> W) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().thread_name("ostard").build();
    let runtime = runtime.context("cannot start the runtime")?;
    let signals = {
        let _inside = runtime.enter();
        Signals::listen()?
    };
    let outcome = runtime.block_on(work(signals));
    // Does not wait for blocking tasks: an attempt to reach a broker may be under way, or a model that is loaded.
    runtime.shutdown_background();
    outcome
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_every_command_has_help_with_examples() {
        let mut cli = Cli::command();
        cli.clone().debug_assert();
        for command in cli.get_subcommands_mut() {
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(help.contains("Examples:"), "{name} has no examples");
            assert!(help.contains(&format!("ostard {name}")), "{name}");
        }
    }
}
