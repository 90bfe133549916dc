//! Metrics of checkpoints.

use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntGauge};

use super::{
    families::{Buckets, Families, Measured},
    process::set_now,
};

#[derive(Debug)]
pub(crate) struct CheckpointMetrics {
    written: IntCounter,
    failures: IntCounter,
    duration: Histogram,
    bytes: Measured,
    last: Measured,
    every_events: Measured,
    unsaved: IntGauge,
    damaged: IntGauge,
}

impl CheckpointMetrics {
    pub(super) fn new(families: &Families<'_>) -> Self {
        Self {
            written: families.counter("ostar_checkpoints_written_total", "Checkpoints written."),
            failures: families.counter(
                "ostar_checkpoint_failures_total",
                "Checkpoints that could not be written.",
            ),
            duration: families.histogram(
                "ostar_checkpoint_duration_seconds",
                "Time to write a checkpoint.",
                Buckets::Seconds,
            ),
            bytes: families.measured(
                "ostar_checkpoint_size_bytes",
                "Size of the newest checkpoint.",
                &[],
            ),
            last: families.measured(
                "ostar_checkpoint_last_timestamp_seconds",
                "When the newest checkpoint was written, in seconds since 1970.",
                &[],
            ),
            every_events: families.measured(
                "ostar_checkpoint_every_events",
                "Events between two checkpoints (checkpoints.every_events); absent if none are written.",
                &[],
            ),
            unsaved: families.gauge(
                "ostar_unsaved_events",
                "Events learned from since the newest checkpoint; a restart learns them again.",
            ),
            damaged: families.gauge(
                "ostar_checkpoints_damaged",
                "Damaged checkpoints that were moved aside and are kept in the folder.",
            ),
        }
    }

    pub(crate) fn set_damaged(&self, checkpoints: usize) {
        self.damaged.set(checkpoints as i64);
    }

    pub(crate) fn set_every_events(&self, events: u64) {
        self.every_events.set(&[], events as f64);
    }

    /// Counts events that no checkpoint holds yet.
    pub(crate) fn learned(&self, events: usize) {
        self.unsaved.add(events as i64);
    }

    /// Called right after a checkpoint was written: its time stamp is taken here.
    pub(crate) fn written(&self, duration: Duration, bytes: u64) {
        self.written.inc();
        self.unsaved.set(0);
        self.duration.observe(duration.as_secs_f64());
        self.bytes.set(&[], bytes as f64);
        set_now(&self.last);
    }

    pub(crate) fn failed(&self) {
        self.failures.inc();
    }
}
