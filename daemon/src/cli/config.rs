//! `ostard config`.

use std::io::{self, Write};

use anyhow::{Result, ensure};
use clap::Subcommand;
use ostar_connectors::settings::Period;

use super::{format::Table, layers::LayerArgs};
use crate::{
    config::{Config, Reading},
    preflight::{self, Verdict},
};

/// Check and print the configuration.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// List every problem of the configuration. Exits with 2 if there is one.
    Check {
        /// Also look at brokers, topics, permissions and files, as `ostard run` would find them. Exits with 1 if it would
        /// end or wait. Writes nothing but a file in checkpoints.folder, which it removes again.
        #[arg(long)]
        connect: bool,
        /// How long a broker may take for each answer.
        #[arg(long, value_name = "PERIOD", default_value = "10s")]
        timeout: Period,
        #[command(flatten)]
        layers: LayerArgs,
    },
    /// Print the effective configuration as TOML, with the origin of each value. Secrets are masked.
    Print {
        #[command(flatten)]
        layers: LayerArgs,
    },
    /// Print the JSON Schema of configuration files, for editors.
    Schema,
}

const EXAMPLES: &str = "\
Examples:
  ostard config check --config ostard.toml
  ostard config check --connect --config ostard.toml
  OSTAR__KAFKA__TOPIC=mails ostard config print --set learner.block=1000
  ostard config schema > ostard.schema.json";

impl Command {
    pub(super) fn execute(self) -> Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Self::Check {
                connect: true,
                timeout,
                layers,
            } => {
                let config = Reading::new(&layers.layers()).valid()?;
                let findings = preflight::check(config, timeout.get());
                let rows = findings.iter().map(|finding| {
                    let verdict = finding.verdict.name().to_owned();
                    vec![verdict, finding.key.to_owned(), finding.text.clone()]
                });
                let mut table = Table::new(&["check", "key", "found"]);
                write!(out, "{}", table.lines(rows.collect()))?;
                let problems = findings
                    .iter()
                    .filter(|finding| finding.verdict == Verdict::Problem)
                    .count();
                ensure!(
                    problems == 0,
                    "`ostard run` would end or wait: {problems} of {} checks found a problem",
                    findings.len()
                );
            }
            Self::Check { layers, .. } => {
                let config = Reading::new(&layers.layers()).valid()?;
                for listener in config.open_listeners() {
                    writeln!(io::stderr(), "warning: {listener}")?;
                }
                writeln!(out, "the configuration is valid")?;
            }
            Self::Print { layers } => {
                let reading = Reading::new(&layers.layers());
                write!(out, "{}", reading.print())?;
                reading.valid()?;
            }
            Self::Schema => {
                writeln!(out, "{}", serde_json::to_string_pretty(&Config::schema())?)?;
            }
        }
        Ok(())
    }
}
