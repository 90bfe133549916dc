//! `ostard run`.

use std::env;

use anyhow::Result;
use clap::Args;

use super::{layers::LayerArgs, serve};
use crate::{config::Reading, log, run, shutdown::Signals};

/// Reads events from Kafka, learns from them and serves predictions, until it is told to stop.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Run {
    #[command(flatten)]
    layers: LayerArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard run --config ostard.toml
  ostard run --brokers localhost:9092 --topic mails --bundle models/spam --checkpoints state
  ostard run --config ostard.toml --mode adapted --set learner.steps_per_block=10";

impl Run {
    pub(super) fn execute(self) -> Result<()> {
        let config = Reading::new(&self.layers.layers()).valid()?;
        log::start(&config.log, env::var("RUST_LOG").ok().as_deref())?;
        serve(async {
            let mut signals = Signals::listen()?;
            run::run(config, &mut signals).await
        })
    }
}
