//! `ostard backtest`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::layers::LayerArgs;

/// Takes history from files through the daemon's own path, without a broker: would it have helped?
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Backtest {
    /// History in the order it happened: CSV, JSON lines, Parquet or safetensors. Can be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    data: Vec<PathBuf>,
    /// Column of the labels, if there are any; they are only used to measure.
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Folder that the report is written to.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    layers: LayerArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard backtest --bundle models/spam --data may.csv --label spam --out report
  ostard backtest --config ostard.toml --data april.jsonl --data may.jsonl";

impl Backtest {
    pub(super) fn execute(self) -> Result<()> {
        anyhow::bail!("not built yet");
    }
}
