//! `ostard fit`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

/// Trains a classifier on labelled data and writes it as a bundle that `ostard run` takes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Fit {
    /// Labelled data: CSV, JSON lines, Parquet or safetensors, by its extension.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Column of the labels.
    #[arg(long, value_name = "COLUMN", default_value = "label")]
    label: String,
    /// Columns that are not inputs, like ids and time stamps.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Folder that the bundle is written to; must not exist.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// What the model is called in logs and metrics.
    #[arg(long, default_value = "model")]
    name: String,
    /// Width of the latent space.
    #[arg(long, default_value_t = 32)]
    latent: usize,
    /// Passes over the data at most.
    #[arg(long, default_value_t = 100)]
    epochs: usize,
    /// Share of every class's rows that is held out from training.
    #[arg(long, default_value_t = 0.2)]
    held_out: f64,
    /// Threads of training.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seed of everything random: the same seed, data and threads give the same bytes.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  ostard fit --data mails.csv --label spam --out models/spam
  ostard fit --data clicks.parquet --label clicked --ignore id,time --out models/clicks --latent 64 --threads 4";

impl Fit {
    pub(super) fn execute(self) -> Result<()> {
        anyhow::bail!("not built yet");
    }
}
