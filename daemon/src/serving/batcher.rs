//! Scores requests in batches. Requests that arrive while a batch is scored wait and make the next batch. A small request
//! that finds an empty queue is scored on the caller's thread: waking a scoring thread takes longer than scoring it.

use std::{
    mem,
    ops::Range,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use anyhow::Context;
use ostar_connectors::{event::InputRows, settings::Period};
use ostar_engine::argmax;
use ostar_method::{Candidate, learner::Scores};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};
use tracing::error;

use super::{
    Services,
    queue::{Job, Queue},
};
use crate::{
    config::RequestSettings,
    current::{ServingMode, Version},
    metrics::{RefusalReason, ScoringPath},
};

/// Most rows of a request that is scored on the caller's thread. That thread also reads requests: scoring so many rows
/// holds it up for some tens of microseconds.
const SPOT_ROWS: usize = 16;

/// Takes requests and answers them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Batcher {
    queue: Arc<Queue>,
    services: Arc<Services>,
    max_wait: Period,
    /// Memory for scoring on the caller's thread, for one request at a time; `None` while there are no workers.
    spot: Arc<Mutex<Option<Scores>>>,
}

/// The scoring threads (`requests.threads`). Dropping it closes the queue.
pub(crate) struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    /// One per class, row after row.
    pub(crate) probabilities: Vec<f32>,
    /// The same of all candidates, in the order of [`Candidate::ALL`]; `None` unless they were asked for.
    pub(crate) candidates: Option<[Vec<f32>; Candidate::ALL.len()]>,
    pub(crate) version: Version,
    /// The request's mode, or the one that was set when it was scored.
    pub(crate) mode: ServingMode,
}

/// Why a request was not scored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("too many requests: {limit} inputs wait already (requests.queue_rows)")]
    QueueFull { limit: usize },
    #[error("too many requests: this one waited {limit} without being scored (requests.max_wait)")]
    WaitedTooLong { limit: Period },
    #[error("the daemon is stopping")]
    Stopping,
    #[error("scoring failed: {0}")]
    Failed(String),
}

// === impl Refusal ===

impl Refusal {
    fn reason(&self) -> RefusalReason {
        match self {
            Self::QueueFull { .. } => RefusalReason::QueueFull,
            Self::WaitedTooLong { .. } => RefusalReason::WaitedTooLong,
            Self::Stopping => RefusalReason::Stopping,
            Self::Failed(_) => RefusalReason::Failed,
        }
    }
}

// === impl Batcher ===

impl Batcher {
    /// Requests wait until [`Workers::start`].
    pub(crate) fn new(services: &Arc<Services>, settings: &RequestSettings) -> Self {
        let queue = Queue::new(settings.queue_rows, services.metrics.clone());
        Self {
            queue: Arc::new(queue),
            services: services.clone(),
            max_wait: settings.max_wait,
            spot: Arc::default(),
        }
    }

    /// Scores rows, at least one, with the newest state. `all` asks for the probabilities of all candidates, too.
    pub(crate) async fn score(
        &self,
        rows: InputRows,
        mode: Option<ServingMode>,
        all: bool,
    ) -> Result<Answer, Refusal> {
        let metrics = &self.services.metrics.serving;
        let count = rows.len();
        let outcome = match self.score_on_the_spot(&rows, mode, all) {
            Some(outcome) => outcome,
            None => self.wait(rows, mode, all).await,
        };
        match &outcome {
            Ok(_) => metrics.rows.inc_by(count as u64),
            Err(refusal) => metrics.refused(refusal.reason()),
        }
        outcome
    }

    /// `None` if the request has to queue: others wait or are scored on the spot, or it is too large.
    fn score_on_the_spot(
        &self,
        rows: &InputRows,
        mode: Option<ServingMode>,
        all: bool,
    ) -> Option<Result<Answer, Refusal>> {
        if rows.len() > SPOT_ROWS || !self.queue.is_free(rows.len()) {
            return None;
        }
        let mut spot = self.spot.try_lock()?;
        let scores = spot.as_mut()?;
        let values = 0..rows.len() * self.services.classes();
        let scored = self.services.score(rows, scores, |scored| {
            self.services.answer(scored, values, mode, all)
        });
        Some(scored)
    }

    async fn wait(
        &self,
        rows: InputRows,
        mode: Option<ServingMode>,
        all: bool,
    ) -> Result<Answer, Refusal> {
        let (reply, mut answer) = oneshot::channel();
        let job = Job {
            rows,
            mode,
            all,
            claim: Arc::default(),
            reply,
        };
        let claim = job.claim.clone();
        self.queue.push(job)?;
        let answered = match timeout(self.max_wait.get(), &mut answer).await {
            Ok(answered) => answered,
            Err(_) if claim.take() => {
                let limit = self.max_wait;
                return Err(Refusal::WaitedTooLong { limit });
            }
            // A worker has claimed it: the answer is on its way.
            Err(_) => answer.await,
        };
        let died = |_| Err(Refusal::Failed("the scoring thread died".into()));
        answered.unwrap_or_else(died)
    }
}

// === impl Workers ===

impl Workers {
    pub(crate) fn start(batcher: &Batcher, settings: &RequestSettings) -> anyhow::Result<Self> {
        let mut workers = Self {
            queue: batcher.queue.clone(),
            threads: Vec::new(),
        };
        for number in 0..settings.threads {
            let worker = Worker {
                queue: batcher.queue.clone(),
                services: batcher.services.clone(),
                most_rows: settings.max_batch_rows,
            };
            let thread = thread::Builder::new().name(format!("scoring-{number}"));
            let thread = thread.spawn(move || worker.run());
            workers
                .threads
                .push(thread.context("cannot start a scoring thread")?);
        }
        *batcher.spot.lock() = (settings.threads > 0).then(Scores::default);
        Ok(workers)
    }

    /// Refuses new requests, answers those that were accepted, and joins the threads. Blocks.
    pub(crate) fn finish(mut self) {
        self.queue.close();
        for thread in mem::take(&mut self.threads) {
            // `Worker::drop` has already reported a panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Scored rows, before they are cut into answers.
struct Scored<'a> {
    scores: &'a Scores,
    version: Version,
    /// What the gate chose when the snapshot was taken.
    gate: Candidate,
    /// Most probable classes of the answers so far, for the metrics.
    predicted: Vec<usize>,
}

/// What one scoring thread owns.
struct Worker {
    queue: Arc<Queue>,
    services: Arc<Services>,
    most_rows: usize,
}

impl Worker {
    fn run(self) {
        fail::fail_point!("scoring thread");
        let mut rows = self.services.no_rows();
        let mut scores = Scores::default();
        let mut batch = Vec::new();
        while self.queue.take(self.most_rows, &mut batch) {
            self.score(&mut batch, &mut rows, &mut scores);
        }
    }

    fn score(&self, batch: &mut Vec<Job>, rows: &mut InputRows, scores: &mut Scores) {
        rows.clear();
        for job in batch.iter() {
            rows.append(&job.rows, 0..job.rows.len());
        }
        let classes = self.services.classes();
        let scored = self.services.score(rows, scores, |scored| {
            let mut first = 0;
            for job in batch.drain(..) {
                let values = first..first + job.rows.len() * classes;
                first = values.end;
                let answer = self.services.answer(scored, values, job.mode, job.all);
                // The client may have gone.
                let _ = job.reply.send(Ok(answer));
            }
        });
        if let Err(refusal) = scored {
            for job in batch.drain(..) {
                let _ = job.reply.send(Err(refusal.clone()));
            }
        }
    }
}

// === impl Services ===

impl Services {
    /// Scores rows with the newest snapshot, and counts the predictions that `answer` makes of them.
    fn score<T>(
        &self,
        rows: &InputRows,
        scores: &mut Scores,
        answer: impl FnOnce(&mut Scored<'_>) -> T,
    ) -> Result<T, Refusal> {
        let start = Instant::now();
        let served = self.current.load();
        if let Err(problem) = served.snapshot.score(rows.inputs(), scores) {
            error!(%problem, "scoring failed");
            return Err(Refusal::Failed(problem.to_string()));
        }
        let mut scored = Scored {
            scores,
            version: served.version,
            gate: served.snapshot.candidate,
            predicted: Vec::with_capacity(rows.len()),
        };
        let answer = answer(&mut scored);
        let scoring = &self.metrics.scoring;
        let clipped = scored.scores.clipped();
        let duration = start.elapsed();
        scoring.observe(ScoringPath::Request, scored.predicted, clipped, duration);
        Ok(answer)
    }

    /// The answer to the request whose probabilities are at `values`.
    fn answer(
        &self,
        scored: &mut Scored<'_>,
        values: Range<usize>,
        mode: Option<ServingMode>,
        all: bool,
    ) -> Answer {
        let mode = mode.unwrap_or_else(|| self.current.mode());
        let scores = scored.scores;
        let of = |candidate| scores.of(candidate)[values.clone()].to_vec();
        let probabilities = of(mode.candidate(scored.gate));
        let rows = probabilities.chunks_exact(self.classes());
        scored.predicted.extend(rows.map(argmax));
        Answer {
            candidates: all.then(|| Candidate::ALL.map(of)),
            probabilities,
            version: scored.version,
            mode,
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if thread::panicking() {
            let part = thread::current().name().unwrap_or("scoring").to_owned();
            error!(thread = part, "scoring thread failed");
            let reason = format!("the {part} thread failed: panicked");
            self.services.health.fail(reason);
        }
    }
}
