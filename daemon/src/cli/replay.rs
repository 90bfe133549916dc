//! `ostard replay`.

use std::{
    io::{self, Write},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use ostar_connectors::{
    event::Encoder,
    files::FileEvents,
    kafka::{OutputError, Sender},
};
use ostar_model::Bundle;
use serde_json::json;

use super::{files::FileArgs, layers::LayerArgs};
use crate::config::Reading;

/// Writes the rows of a file to the events topic, at a rate.
///
/// Labels are never sent with the events: they go to labels.topic, if that is set.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Replay {
    /// What to send: CSV, JSON lines, Parquet or safetensors, by its extension.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Events a second; as fast as it goes without it.
    #[arg(long, value_name = "EVENTS")]
    rate: Option<f64>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    layers: LayerArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard replay --data may.csv --brokers localhost:9092 --topic mails --bundle models/spam --rate 500
  ostard replay --config ostard.toml --data may.csv --label spam --id message_id";

/// How long the last records may take to arrive.
const FLUSH: Duration = Duration::from_secs(30);

impl Replay {
    pub(super) fn execute(self) -> Result<()> {
        let reading = Reading::new(&self.layers.layers());
        let config = reading.valid_without(&["checkpoints.folder"])?;
        if self
            .rate
            .is_some_and(|rate| !(rate.is_finite() && rate > 0.0))
        {
            bail!("--rate is not a number above 0");
        }
        let Some(folder) = &config.bundle.path else {
            bail!("bundle.path is not set, expected the bundle that the events are for");
        };
        let bundle = Bundle::load(folder)?;
        let description = bundle.description();
        let classes = &description.classes;
        let encoder = Encoder::new(&config.events, &description.input, classes.len())?;
        let settings = self.files.settings();
        let events = FileEvents::open(&self.data, &settings, &description.input, classes)?;
        let mut sender = Sender::open(&config.kafka)?;
        let style = ProgressStyle::with_template("{spinner} {pos} events sent, {per_sec}")?;
        let bar = ProgressBar::new_spinner().with_style(style);
        let start = Instant::now();
        let mut sent = 0_u64;
        for event in events {
            let event = event?;
            if let Some(rate) = self.rate {
                let due = Duration::from_secs_f64(sent as f64 / rate);
                thread::sleep(due.saturating_sub(start.elapsed()));
            }
            let id = event.id.unwrap_or_else(|| format!("{}", event.row));
            let payload = encoder.encode(Some(&id), event.time_ms, &event.input);
            hand_over(|| sender.send(&config.kafka.topic, &id, &payload, event.time_ms))?;
            if let (Some(topic), Some(label)) = (&config.labels.topic, event.label) {
                let label = json!({
                    config.labels.id_field.as_str(): id,
                    config.labels.label_field.as_str(): classes[label as usize],
                });
                let label = label.to_string();
                hand_over(|| sender.send(topic, &id, label.as_bytes(), None))?;
            }
            sent += 1;
            bar.set_position(sent);
        }
        sender.flush(FLUSH).context("not all events have arrived")?;
        bar.finish_and_clear();
        let seconds = start.elapsed().as_secs_f64();
        writeln!(
            io::stdout(),
            "{sent} events sent to {} in {seconds:.1} s",
            config.kafka.topic
        )?;
        Ok(())
    }
}

/// Again, as long as the producer's queue is full.
fn hand_over(mut send: impl FnMut() -> Result<(), OutputError>) -> Result<(), OutputError> {
    loop {
        match send() {
            Err(OutputError::Full) => {}
            outcome => return outcome,
        }
    }
}
