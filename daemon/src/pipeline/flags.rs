//! What the process tells the threads of the pipeline without a channel.

use std::sync::atomic::{AtomicBool, Ordering};

/// Shared by all threads of a pipeline. Nothing else is synchronised through the flags, so relaxed ordering is enough.
#[derive(Debug, Default)]
pub(crate) struct PipelineFlags {
    stopping: AtomicBool,
    resume_reading: AtomicBool,
}

impl PipelineFlags {
    /// Ingest and labels stop polling; the learner ends after the block at hand. Emission ends when its channel does.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Ingest reads again, if it has stopped after too many bad events.
    pub(crate) fn resume_reading(&self) {
        self.resume_reading.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::resume_reading`] was called since the last time; forgets it.
    pub(crate) fn take_resume(&self) -> bool {
        self.resume_reading.swap(false, Ordering::Relaxed)
    }
}
