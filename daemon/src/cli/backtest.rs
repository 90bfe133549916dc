//! `ostard backtest`.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::{files::FileArgs, layers::LayerArgs};
use crate::{backtest, config::Reading};

/// Replay history from files through the daemon's own code, without a broker, to see whether it would have helped.
///
/// Each block of events is scored with the state that would have been served at the time, and learned from afterwards.
/// With labels in the files, the report has the accuracy of every candidate, and labels that fit another order of the
/// bundle's classes are an error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Backtest {
    /// Events in the order they happened: CSV, JSON lines, Parquet or safetensors, by extension. Can be repeated.
    #[arg(long, value_name = "FILE", required = true)]
    data: Vec<PathBuf>,
    /// Folder for report.txt, report.json and report.svg.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    layers: LayerArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard backtest --bundle models/spam --data may.csv --label spam --out report
  ostard backtest --config ostard.toml --data april.jsonl --data may.jsonl";

impl Backtest {
    pub(super) fn execute(self) -> Result<()> {
        let reading = Reading::new(&self.layers.layers());
        let (config, bundle) = reading.for_bundle(&["kafka.brokers", "kafka.topic"])?;
        let columns = self.files.settings();
        let style = ProgressStyle::with_template("{spinner} {pos} events, {per_sec}")?;
        let bar = ProgressBar::new_spinner().with_style(style);
        let progress = |events| bar.set_position(events);
        let report = backtest::run(&config, &bundle, &self.data, &columns, progress)?;
        bar.finish_and_clear();
        let mut output = io::stdout().lock();
        write!(output, "{}", report.table())?;
        if let Some(folder) = &self.out {
            report.save(folder)?;
            let folder = folder.display();
            writeln!(
                output,
                "report.txt, report.json and report.svg are in {folder}"
            )?;
        }
        if let Some(problem) = report.wrong_order() {
            bail!(problem);
        }
        Ok(())
    }
}
