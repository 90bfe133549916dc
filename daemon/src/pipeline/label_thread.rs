//! The labels thread: joins late labels with predictions. They are used to measure, never to learn.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ostar_connectors::{
    kafka::{LabelReader, Polled},
    labels::{LabelDecoder, LabelJoin},
};
use ostar_model::Bundle;
use tracing::debug;

use super::flags::PipelineFlags;
use crate::{config::Config, metrics::Metrics};

/// How long the broker may take to answer at the start.
const OPEN: Duration = Duration::from_secs(10);
/// How long a poll waits, so that stopping is noticed.
const POLL: Duration = Duration::from_millis(50);
/// How often metrics follow what was measured.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// Reads the topic of labels.
pub(crate) struct LabelThread {
    reader: LabelReader,
    decoder: LabelDecoder,
    join: Arc<Mutex<LabelJoin>>,
    metrics: Arc<Metrics>,
}

impl LabelThread {
    pub(crate) fn open(
        config: &Config,
        bundle: &Bundle,
        join: Arc<Mutex<LabelJoin>>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self> {
        let classes = &bundle.description().classes;
        let topic = config.labels.topic.as_deref().unwrap_or_default();
        let reader = LabelReader::open(&config.kafka, topic, OPEN);
        Ok(Self {
            reader: reader.context("cannot read labels.topic")?,
            decoder: LabelDecoder::new(&config.labels, classes),
            join,
            metrics: Arc::clone(metrics),
        })
    }

    pub(crate) fn run(mut self, flags: &PipelineFlags) -> Result<()> {
        let mut shown = Instant::now();
        while !flags.is_stopping() {
            match self.reader.poll(POLL)? {
                Polled::Record(record) => match self.decoder.decode(Some(record.payload())) {
                    Ok(label) => {
                        let mut join = self.join.lock().unwrap_or_else(PoisonError::into_inner);
                        join.add_label(&label.id, label.class);
                    }
                    Err(reject) => {
                        debug!(%reject, "rejected a label");
                        self.metrics.labels.rejected();
                    }
                },
                // Ingest gets the same notices of the broker, and acts on them.
                Polled::Notice(notice) => debug!(?notice, "notice from the labels topic"),
                Polled::Idle => {}
            }
            if shown.elapsed() >= SHOW_EVERY {
                shown = Instant::now();
                self.show();
            }
        }
        self.show();
        self.reader.close()?;
        Ok(())
    }

    fn show(&self) {
        let report = {
            let join = self.join.lock().unwrap_or_else(PoisonError::into_inner);
            join.report()
        };
        self.metrics.labels.observe(&report);
    }
}
