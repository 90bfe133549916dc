//! The queue of requests that wait to be scored, bounded by their rows.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ostar_connectors::event::InputRows;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::batcher::{Answer, Refusal};
use crate::{current::ServingMode, metrics::Metrics};

/// A request in the queue.
pub(super) struct Job {
    pub(super) rows: InputRows,
    /// `None` for the mode that is set when it is scored.
    pub(super) mode: Option<ServingMode>,
    /// Whether the probabilities of all candidates are asked for.
    pub(super) all: bool,
    pub(super) claim: Arc<Claim>,
    /// Closed when the client has gone.
    pub(super) reply: oneshot::Sender<Result<Answer, Refusal>>,
}

/// Settles the race between the worker that is about to score a request and its timeout: whoever takes it first wins. The
/// request is either scored or refused, never both.
#[derive(Debug, Default)]
pub(super) struct Claim(AtomicBool);

/// Waiting requests, first come first served.
pub(super) struct Queue {
    /// Most rows: bounds memory, and the wait of the last request.
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
    /// New requests are refused; those in the queue are still scored.
    closed: bool,
}

// === impl Claim ===

impl Claim {
    /// `true` for the first caller only.
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

    /// Whether the queue is empty and open, and the rows are within its limit.
    pub(super) fn is_free(&self, rows: usize) -> bool {
        let waiting = self.waiting.lock();
        waiting.jobs.is_empty() && !waiting.closed && rows <= self.limit
    }

    /// Queues a request, or refuses it at once.
    pub(super) fn push(&self, job: Job) -> Result<(), Refusal> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(Refusal::Stopping);
        }
        let rows = waiting.rows + job.rows.len();
        if rows > self.limit {
            return Err(Refusal::QueueFull { limit: self.limit });
        }
        waiting.rows = rows;
        waiting.jobs.push_back(job);
        self.metrics.serving.queue.set(rows as i64);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for requests and takes as many as fit into `most_rows`, at least one. `false` once the queue is closed and
    /// empty.
    pub(super) fn take(&self, most_rows: usize, batch: &mut Vec<Job>) -> bool {
        let mut waiting = self.waiting.lock();
        loop {
            let mut rows = 0;
            while let Some(job) = waiting.jobs.front() {
                let more = job.rows.len();
                if !batch.is_empty() && rows + more > most_rows {
                    break;
                }
                waiting.rows -= more;
                let job = waiting
                    .jobs
                    .pop_front()
                    .expect("`front` has just seen it, under the same lock");
                // Skips requests whose client has gone or that were refused after waiting too long.
                if !job.reply.is_closed() && job.claim.take() {
                    rows += more;
                    batch.push(job);
                }
            }
            self.metrics.serving.queue.set(waiting.rows as i64);
            if !batch.is_empty() {
                return true;
            }
            if waiting.closed {
                return false;
            }
            self.arrived.wait(&mut waiting);
        }
    }

    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_all();
    }
}
