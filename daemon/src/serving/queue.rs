//! Requests that wait to be scored, bounded by their rows.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use ostar_connectors::event::InputRows;
use tokio::sync::oneshot;

use super::batcher::{Answer, Refusal};
use crate::{current::ServingMode, metrics::Metrics};

/// A request.
pub(super) struct Job {
    pub(super) rows: InputRows,
    /// `None` for the configured one.
    pub(super) mode: Option<ServingMode>,
    /// Whether the probabilities of all candidates are wanted.
    pub(super) all: bool,
    pub(super) claim: Arc<Claim>,
    /// Closed when the client went away.
    pub(super) reply: oneshot::Sender<Result<Answer, Refusal>>,
}

/// Decides between the thread that wants to score a request and the request that has waited too long: whoever
/// takes it first.
#[derive(Debug, Default)]
pub(super) struct Claim(AtomicBool);

/// The waiting requests, in order.
pub(super) struct Queue {
    /// Rows at most: a bound on memory, and on the wait of whoever comes last.
    limit: usize,
    waiting: Mutex<Waiting>,
    /// Wakes a scoring thread.
    arrived: Condvar,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    rows: usize,
    /// Nothing is taken in any more; what is there is still scored.
    closed: bool,
}

// === impl Claim ===

impl Claim {
    pub(super) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

// === impl Queue ===

impl Queue {
    pub(super) fn new(limit: usize, metrics: Arc<Metrics>) -> Self {
        Self {
            limit,
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            metrics,
        }
    }

    /// Whether nobody waits, and so many rows would be taken in.
    pub(super) fn is_free(&self, rows: usize) -> bool {
        let waiting = self.lock();
        waiting.jobs.is_empty() && !waiting.closed && rows <= self.limit
    }

    /// Takes a request in, or refuses it at once.
    pub(super) fn push(&self, job: Job) -> Result<(), Refusal> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(Refusal::Stopping);
        }
        let rows = waiting.rows + job.rows.len();
        if rows > self.limit {
            return Err(Refusal::QueueFull { limit: self.limit });
        }
        waiting.rows = rows;
        waiting.jobs.push_back(job);
        self.metrics.serving.set_queue(rows);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for requests and takes as many as fit into `most_rows`, at least one. `false` after the last one of
    /// a closed queue.
    pub(super) fn take(&self, most_rows: usize, batch: &mut Vec<Job>) -> bool {
        let mut waiting = self.lock();
        loop {
            let mut rows = 0;
            while let Some(job) = waiting.jobs.front() {
                let more = job.rows.len();
                if !batch.is_empty() && rows + more > most_rows {
                    break;
                }
                waiting.rows -= more;
                let job = waiting.jobs.pop_front().expect("it was at the front");
                if !job.reply.is_closed() && job.claim.take() {
                    rows += more;
                    batch.push(job);
                }
            }
            self.metrics.serving.set_queue(waiting.rows);
            if !batch.is_empty() {
                return true;
            }
            if waiting.closed {
                return false;
            }
            let woken = self.arrived.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
