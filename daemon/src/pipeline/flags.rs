//! What the process tells the threads of the pipeline without a channel.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Shared by all threads of a pipeline. Nothing else is synchronised through the flags, so relaxed ordering is enough.
#[derive(Debug, Default)]
pub(crate) struct PipelineFlags {
    stopping: AtomicBool,
    /// Set by [`PipelineFlags::stop`]: until then outputs and the block at hand may be waited for.
    work_until: OnceLock<Instant>,
    /// Ingest has stopped after too many bad events.
    reading_stopped: AtomicBool,
    resume_reading: AtomicBool,
}

/// Longest that outputs and the block at hand are waited for at the end. The next start does what is left.
const LAST_WORK: Duration = Duration::from_secs(5);
/// Time that is left for the last commit and checkpoint.
const MARGIN: Duration = Duration::from_millis(1_500);

impl PipelineFlags {
    /// Ingest and labels stop polling; the learner ends after the block at hand, and emission when its channel does; both
    /// give up what cannot be done in time.
    pub(crate) fn stop(&self, deadline: Instant) {
        let now = Instant::now();
        let latest = deadline.checked_sub(MARGIN).unwrap_or(now);
        self.work_until.get_or_init(|| latest.min(now + LAST_WORK));
        self.stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether the process stops and what is not done by now is left to the next start.
    pub(crate) fn gives_up(&self) -> bool {
        let until = self.work_until.get();
        until.is_some_and(|until| Instant::now() >= *until)
    }

    pub(crate) fn set_reading_stopped(&self, stopped: bool) {
        self.reading_stopped.store(stopped, Ordering::Relaxed);
    }

    pub(crate) fn is_reading_stopped(&self) -> bool {
        self.reading_stopped.load(Ordering::Relaxed)
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
