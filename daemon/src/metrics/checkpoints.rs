//! Metrics of checkpoints.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::families::{Buckets, metrics, only};
use crate::clock::now_ms;

metrics! {
    struct CheckpointMetrics {
        written = counter("ostar_checkpoints_written_total", "Checkpoints written.");
        failures = counter("ostar_checkpoint_failures_total", "Checkpoints that could not be written.");
        duration = histogram("ostar_checkpoint_duration_seconds", "Time to write a checkpoint.", Buckets::Seconds);
        bytes = measured("ostar_checkpoint_size_bytes", "Size of the newest checkpoint.", &[]);
        every_events = measured("ostar_checkpoint_every_events",
            "Events between two checkpoints (checkpoints.every_events); absent if none are written.", &[]);
        unsaved = gauge("ostar_unsaved_events", "Events learned from since the newest checkpoint; a restart learns them again.");
        damaged = gauge("ostar_checkpoints_damaged", "Damaged checkpoints that were moved aside and are kept in the folder.");
    }
    // When the newest one was written, in milliseconds since 1970; 0 before the first.
    also { last_ms: AtomicU64 }
}

impl CheckpointMetrics {
    pub(crate) fn set_every_events(&self, events: u64) {
        only(&self.every_events).set(events as f64);
    }

    /// Called right after a checkpoint was written: its time stamp is taken here.
    pub(crate) fn written(&self, duration: Duration, bytes: u64) {
        self.written.inc();
        self.unsaved.set(0);
        self.duration.observe(duration.as_secs_f64());
        only(&self.bytes).set(bytes as f64);
        self.last_ms.store(now_ms(), Ordering::Relaxed);
    }

    pub(super) fn last_ms(&self) -> Option<u64> {
        Some(self.last_ms.load(Ordering::Relaxed)).filter(|at_ms| *at_ms > 0)
    }
}
