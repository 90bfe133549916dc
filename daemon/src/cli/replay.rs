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
use ostar_connectors::{event::Encoder, files::FileEvents, kafka::Sender};
use serde_json::json;

use super::{files::FileArgs, layers::LayerArgs};
use crate::config::Reading;

/// Send the rows of a file to the events topic.
///
/// Labels are never part of the events. They are sent to labels.topic, if that is set.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Replay {
    /// Rows to send: CSV, JSON lines, Parquet or safetensors, by extension.
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Events per second. Without it, as fast as the broker takes them.
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

/// How long to wait for the broker to acknowledge the last records.
const FLUSH: Duration = Duration::from_secs(30);

impl Replay {
    pub(super) fn execute(self) -> Result<()> {
        let reading = Reading::new(&self.layers.layers());
        let (config, bundle) = reading.for_bundle(&[])?;
        if let Some(rate) = self.rate
            && !(rate.is_finite() && rate > 0.0)
        {
            bail!("--rate is {rate}, expected a number above 0");
        }
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
            sender.hand_over(&config.kafka.topic, &id, &payload, event.time_ms)?;
            if let (Some(topic), Some(label)) = (&config.labels.topic, event.label) {
                let label = json!({
                    config.labels.id_field.as_str(): id,
                    config.labels.label_field.as_str(): classes[label as usize],
                });
                let label = label.to_string();
                let time_ms = event.label_time_ms.or(event.time_ms);
                sender.hand_over(topic, &id, label.as_bytes(), time_ms)?;
            }
            sent += 1;
            bar.set_position(sent);
        }
        sender.flush(FLUSH).with_context(|| {
            format!("the broker did not acknowledge all events within {FLUSH:?}")
        })?;
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
