//! `ostard config`.

use std::io::{self, Write};

use anyhow::Result;
use clap::Subcommand;

use super::layers::LayerArgs;
use crate::config::{Config, Reading};

/// Check and print the configuration.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// List every problem of the configuration. Exits with 2 if there is one.
    Check {
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
  OSTAR__KAFKA__TOPIC=mails ostard config print --set learner.block=1000
  ostard config schema > ostard.schema.json";

impl Command {
    pub(super) fn execute(self) -> Result<()> {
        let mut out = io::stdout().lock();
        match self {
            Self::Check { layers } => {
                Reading::new(&layers.layers()).valid()?;
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
