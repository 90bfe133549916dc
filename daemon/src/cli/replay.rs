//! `ostard replay`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::layers::LayerArgs;

/// Writes the rows of a file to the events topic, at a rate.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Replay {
    /// What to send: CSV, JSON lines, Parquet or safetensors, by its extension.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Column of the labels; sent to labels.topic if that is set, and never with the events.
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Column of the ids; without one, events are numbered.
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// Events a second; as fast as it goes without it.
    #[arg(long, value_name = "EVENTS")]
    rate: Option<f64>,
    #[command(flatten)]
    layers: LayerArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard replay --data may.csv --brokers localhost:9092 --topic mails --bundle models/spam --rate 500
  ostard replay --config ostard.toml --data may.csv --label spam --id message_id";

impl Replay {
    pub(super) fn execute(self) -> Result<()> {
        anyhow::bail!("not built yet");
    }
}
