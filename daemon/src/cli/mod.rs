//! The command line.

mod backtest;
mod checkpoint;
mod client;
mod config;
mod ctl;
mod demo;
mod files;
mod fit;
mod format;
mod layers;
mod predict;
mod replay;
mod rows;
mod run;
mod shell;
mod state;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

pub(crate) use client::Unanswered;

/// Follows how the classes of a deployed classifier move, without labels, and serves predictions that
/// move with them.
#[derive(Debug, Parser)]
#[command(name = "ostard", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ostard demo                                  see it work, nothing else needed
  ostard fit --data mails.csv --label spam --out models/spam
  ostard run --config ostard.toml              read Kafka, learn, serve
  ostard config check --config ostard.toml     what is wrong with a configuration, all of it
  ostard state                                 shares of the classes, shift, what is served
  ostard ctl mode adapted                      change what a running daemon serves

Exit codes: 0 done, 1 failed, 2 a flag or the configuration is wrong, 3 the daemon did not answer.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Run),
    Demo(demo::Demo),
    Fit(fit::Fit),
    Backtest(backtest::Backtest),
    #[command(subcommand)]
    Config(config::Command),
    #[command(subcommand)]
    Checkpoint(checkpoint::Command),
    Replay(replay::Replay),
    Predict(predict::Predict),
    State(state::ShowState),
    Ctl(ctl::Ctl),
    Completions(shell::Completions),
    Man(shell::Man),
}

impl Cli {
    /// Does what the command line says.
    pub(crate) fn execute(self) -> Result<()> {
        match self.command {
            Command::Run(run) => run.execute(),
            Command::Demo(demo) => demo.execute(),
            Command::Fit(fit) => fit.execute(),
            Command::Backtest(backtest) => backtest.execute(),
            Command::Config(command) => command.execute(),
            Command::Checkpoint(command) => command.execute(),
            Command::Replay(replay) => replay.execute(),
            Command::Predict(predict) => predict.execute(),
            Command::State(state) => state.execute(),
            Command::Ctl(ctl) => ctl.execute(),
            Command::Completions(completions) => completions.execute(),
            Command::Man(man) => man.execute(),
        }
    }
}

/// Runs a daemon's work on as many threads as there are cores.
fn serve<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().thread_name("ostard").build();
    let runtime = runtime.context("cannot start the runtime")?;
    let outcome = runtime.block_on(work);
    // An attempt to reach a broker may be under way, and would hold the end until it has failed.
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
