//! `ostard run`.

use std::env;

use anyhow::Result;
use clap::Args;

use super::{layers::LayerArgs, serve};
use crate::{config::Reading, log, run};

/// Read events from Kafka, learn from them and serve predictions, until a signal.
///
/// SIGTERM and SIGINT (Ctrl-C) end it: it writes a checkpoint, flushes its outputs and answers open requests. A second
/// process with the same checkpoint folder stands by and takes over when the first one ends. With `--role` the work is
/// split: any number of scorers, and a learner with its standbys.
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
  ostard run --config ostard.toml --mode adapted --set learner.steps_per_block=10
  ostard run --config ostard.toml --role scorer
  ostard run --config ostard.toml --role learner --set checkpoints.store=kafka";

impl Run {
    pub(super) fn execute(self) -> Result<()> {
        serve(async move |mut signals| {
            let config = Reading::new(&self.layers.layers()).valid()?;
            log::start(&config.log, env::var("RUST_LOG").ok().as_deref())?;
            run::run(config, &mut signals, |_| ()).await
        })
    }
}
