//! The second thread of the pipeline: scores chunks, hands them to the learner, writes predictions and dead letters, and
//! commits what is delivered.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use ostar_connectors::{
    event::Offsets,
    kafka::{Output, OutputError, Outputs},
    proto,
};
use tracing::{info, warn};

use super::{
    commits::Commits,
    flags::PipelineFlags,
    ingest::{FromIngest, Release},
    sampling::SampleSink,
    scored::{FrozenScoring, ScoredChunk},
    scoring::{Predictions, Scoring},
};
use crate::{health::Health, metrics::Metrics};

/// Outputs are flushed and their offsets committed at least this often, while there are any.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// They are also flushed after this many events. Together with [`FLUSH_EVERY`] this bounds what a crash repeats.
const FLUSH_EVENTS: usize = 2_000;
/// How long one attempt to flush waits for the broker, so that stopping is noticed.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);
/// How long a commit is waited for after outputs, so that a crash repeats few of them.
const COMMIT: Duration = Duration::from_secs(2);
/// The same at the end. Shorter than what is left of the shutdown deadline then.
const LAST_COMMIT: Duration = Duration::from_secs(1);
/// The same before a partition is given back: whoever gets it repeats what is not committed.
const RELEASE_COMMIT: Duration = Duration::from_secs(3);
/// The log tells of a broker that is slower than this.
const SLOW: Duration = Duration::from_secs(2);
/// How often the log says that outputs wait.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// Writes the outputs of every event, in the order of events.
pub(crate) struct Emission {
    pub(crate) frozen: FrozenScoring,
    pub(crate) scoring: Scoring,
    pub(crate) outputs: Outputs,
    pub(crate) commits: Commits,
    /// Outputs of events before these offsets were delivered by an earlier run, of this creation of the topic.
    pub(crate) emitted: Offsets,
    pub(crate) classes: Vec<String>,
    /// How long a silent broker is waited for before a condition tells so.
    pub(crate) patience: Duration,
    pub(crate) flags: Arc<PipelineFlags>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) progress: Progress,
}

/// How far outputs are.
#[derive(Default)]
pub(crate) struct Progress {
    /// Events whose outputs were sent since the last flush.
    events: usize,
    /// Offsets behind them.
    sent: Offsets,
    /// Outputs that were delivered or parked since the last flush.
    delivered: usize,
    /// Start of the current wait for outputs.
    waiting_since: Option<Instant>,
    /// When the log last told of the current wait.
    warned: Option<Instant>,
}

/// The process stops before all outputs are delivered.
struct GivenUp;

impl Emission {
    /// Runs until ingest closes the channel. The learner gets each chunk before its outputs are written, so that it does
    /// not wait for them.
    pub(crate) fn run(
        mut self,
        chunks: &Receiver<FromIngest>,
        mut learner: SampleSink,
    ) -> Result<()> {
        let outcome = self.take_chunks(chunks, &mut learner)?;
        // Before the last flush, which may take long: the learner can end meanwhile.
        drop(learner);
        if outcome.is_ok() {
            // What is not delivered now is above the commit: the next start sends it.
            let _ = self.settle();
        }
        self.commits.commit(LAST_COMMIT);
        Ok(())
    }

    fn take_chunks(
        &mut self,
        chunks: &Receiver<FromIngest>,
        learner: &mut SampleSink,
    ) -> Result<Result<(), GivenUp>> {
        let mut last_commit = Instant::now();
        loop {
            let wait = FLUSH_EVERY.saturating_sub(last_commit.elapsed());
            match chunks.recv_timeout(wait) {
                Ok(FromIngest::Chunk(chunk)) => {
                    let mut chunk = self.frozen.score(chunk)?;
                    let predictions = self.scoring.score(&mut chunk)?;
                    let chunk = Arc::new(chunk);
                    self.tell_refused(&chunk);
                    self.metrics
                        .ingest
                        .set_waiting("learner", learner.waiting());
                    learner.pass_on(&chunk);
                    if let Err(given_up) = self.rewind(&chunk) {
                        return Ok(Err(given_up));
                    }
                    if let Err(given_up) = self.sample(&chunk, learner) {
                        return Ok(Err(given_up));
                    }
                    if let Err(given_up) = self.emit(&chunk, &predictions) {
                        return Ok(Err(given_up));
                    }
                    self.count();
                }
                Ok(FromIngest::Topic(id)) => learner.follow_topic(id.as_deref()),
                Ok(FromIngest::Release(release)) => {
                    if let Err(given_up) = self.release(&release) {
                        return Ok(Err(given_up));
                    }
                    // Whoever waited may have given up.
                    let _ = release.done.send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.metrics
                        .ingest
                        .set_waiting("learner", learner.waiting());
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Ok(())),
            }
            let due = last_commit.elapsed() >= FLUSH_EVERY;
            if due || self.progress.events >= FLUSH_EVENTS {
                let settled = match self.settle() {
                    Ok(settled) => settled,
                    Err(given_up) => return Ok(Err(given_up)),
                };
                // Where no outputs are written, a crash repeats none: commit once per FLUSH_EVERY, without waiting.
                if due || settled > 0 {
                    self.commits
                        .commit(if settled > 0 { COMMIT } else { Duration::ZERO });
                    self.commits.check()?;
                    last_commit = Instant::now();
                }
            }
        }
    }

    /// Counts and tells what the model refused.
    fn tell_refused(&self, chunk: &ScoredChunk) {
        for event in chunk.rejected.iter().rev().take(chunk.refused) {
            self.metrics.ingest.rejected(event.reject.reason.as_str());
            warn!(
                partition = event.partition,
                offset = event.offset,
                reason = %event.reject,
                "the model refused an event, which is quarantined"
            );
        }
    }

    /// Where offsets begin anew, all events from them on are new. What had these offsets before is settled first.
    fn rewind(&mut self, chunk: &ScoredChunk) -> Result<(), GivenUp> {
        if let Some(rewound) = &chunk.rewound {
            self.settle()?;
            self.commits.rewind(&rewound.offsets);
            self.emitted.extend(&rewound.offsets);
        }
        Ok(())
    }

    /// Delivers and commits what was read of partitions that others read from now on.
    fn release(&mut self, release: &Release) -> Result<(), GivenUp> {
        self.settle()?;
        if !release.lost {
            self.commits.commit_all(RELEASE_COMMIT);
        }
        self.commits.forget(&release.partitions);
        self.emitted
            .retain(|partition, _| !release.partitions.contains(partition));
        Ok(())
    }

    /// Passes a share of a chunk's events on to a learner in another process.
    fn sample(&mut self, chunk: &ScoredChunk, sink: &mut SampleSink) -> Result<(), GivenUp> {
        let SampleSink::Topic(sampler) = sink else {
            return Ok(());
        };
        sampler.follow(chunk);
        for number in 0..chunk.events.len() {
            let Some(sample) = sampler.sample(chunk, number) else {
                continue;
            };
            if let Err(given_up) = self.send(|outputs| outputs.send_sample(&sample)) {
                self.progress.sent.extend(&chunk.next);
                self.keep_below(chunk, 0, 0);
                return Err(given_up);
            }
        }
        Ok(())
    }

    /// Sends the outputs of a chunk.
    fn emit(&mut self, chunk: &ScoredChunk, predictions: &Predictions) -> Result<(), GivenUp> {
        self.progress.events += chunk.events.len() + chunk.rejected.len();
        self.progress.sent.extend(&chunk.next);
        let rows = predictions.probabilities.chunks_exact(self.classes.len());
        if self.outputs.takes_predictions() {
            for (number, (event, probabilities)) in chunk.events.iter().zip(rows).enumerate() {
                if !self.is_new(event.partition, event.offset) {
                    continue;
                }
                let class = chunk.sent[number];
                let prediction = proto::Prediction {
                    id: event.id.as_deref().unwrap_or_default().to_owned(),
                    probabilities: probabilities.to_vec(),
                    class,
                    class_name: self.classes[class as usize].clone(),
                    version: Some(predictions.version.into()),
                };
                let sent = self.send(|outputs| outputs.send_prediction(event, &prediction));
                if let Err(given_up) = sent {
                    self.keep_below(chunk, number, 0);
                    return Err(given_up);
                }
            }
        }
        for (number, rejected) in chunk.rejected.iter().enumerate() {
            if !self.is_new(rejected.partition, rejected.offset) {
                continue;
            }
            if let Err(given_up) = self.send(|outputs| outputs.send_dead_letter(rejected)) {
                self.keep_below(chunk, chunk.events.len(), number);
                return Err(given_up);
            }
        }
        Ok(())
    }

    fn is_new(&self, partition: i32, offset: i64) -> bool {
        offset >= self.emitted.get(&partition).copied().unwrap_or(0)
    }

    /// Hands a message over, again and again while there are too many under way.
    fn send(
        &mut self,
        mut hand_over: impl FnMut(&mut Outputs) -> Result<(), OutputError>,
    ) -> Result<(), GivenUp> {
        loop {
            match hand_over(&mut self.outputs) {
                Ok(()) => return Ok(()),
                Err(error) => self.wait(&error)?,
            }
        }
    }

    /// The process stops in the middle of a chunk: nothing from these events on is settled.
    fn keep_below(&mut self, chunk: &ScoredChunk, events: usize, rejected: usize) {
        let events = chunk.events[events..].iter();
        let events = events.map(|event| (event.partition, event.offset));
        let rejected = chunk.rejected[rejected..].iter();
        let rejected = rejected.map(|rejected| (rejected.partition, rejected.offset));
        lower(&mut self.progress.sent, events.chain(rejected));
        self.give_up();
    }

    /// Waits until everything sent is delivered or parked. Returns the number of outputs.
    fn settle(&mut self) -> Result<usize, GivenUp> {
        // Not by the number of events: offsets of tombstones are committed, too.
        if self.progress.sent.is_empty() {
            return Ok(0);
        }
        loop {
            let flushed = self.outputs.flush(FLUSH_TIMEOUT);
            self.count();
            match flushed {
                Ok(()) => {
                    self.end_wait();
                    let sent = std::mem::take(&mut self.progress.sent);
                    self.commits.settle(&sent);
                    self.progress.events = 0;
                    return Ok(std::mem::take(&mut self.progress.delivered));
                }
                Err(error) => {
                    if let Err(given_up) = self.wait(&error) {
                        self.give_up();
                        return Err(given_up);
                    }
                }
            }
        }
    }

    /// Tells that outputs wait, and why; `Err` if the process stops and they are left to the next start.
    fn wait(&mut self, error: &OutputError) -> Result<(), GivenUp> {
        let since = self.progress.waiting_since;
        let waited = since.map_or(Duration::ZERO, |since| since.elapsed());
        self.progress.waiting_since.get_or_insert_with(Instant::now);
        // A silent broker may come back soon. A refusal is known at once.
        let is_refused = !matches!(
            error,
            OutputError::Full | OutputError::Timeout { refused: None, .. }
        );
        let warned = self.progress.warned;
        let is_due = warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY);
        if is_due && (is_refused || waited >= SLOW) {
            self.progress.warned = Some(Instant::now());
            warn!(%error, "cannot deliver outputs, reading waits");
        }
        if is_refused || waited >= self.patience {
            self.health.set_condition("outputs", error.to_string());
        }
        if !matches!(error, OutputError::Full | OutputError::Timeout { .. }) {
            // These errors come without waiting.
            thread::sleep(FLUSH_TIMEOUT);
        }
        if self.flags.gives_up() {
            return Err(GivenUp);
        }
        Ok(())
    }

    fn end_wait(&mut self) {
        let since = self.progress.waiting_since.take();
        if let (Some(since), Some(_)) = (since, self.progress.warned.take()) {
            let seconds = since.elapsed().as_secs_f64();
            info!(seconds, "outputs are delivered again");
        }
        self.health.clear("outputs");
    }

    /// Settles what comes before the first output that is neither delivered nor parked.
    fn give_up(&mut self) {
        let mut sent = std::mem::take(&mut self.progress.sent);
        let unsettled = self.outputs.unsettled();
        lower(&mut sent, unsettled.into_iter());
        self.commits.settle(&sent);
        let waiting: usize = Output::ALL
            .map(|output| self.outputs.waiting(output))
            .iter()
            .sum();
        warn!(
            outputs = waiting,
            "stopping before these outputs are delivered; the next start sends them"
        );
    }

    /// Shows in metrics what became of outputs.
    fn count(&mut self) {
        let mut parked = 0;
        for output in Output::ALL {
            let counts = self.outputs.take_counts(output);
            let metrics = self.metrics.outputs.of(output);
            metrics.add(counts);
            metrics.set_in_flight(self.outputs.waiting(output));
            self.progress.delivered += (counts.delivered + counts.parked) as usize;
            parked += counts.parked;
        }
        if let Some(reason) = self.outputs.take_parked_reason() {
            warn!(outputs = parked, reason, "parked outputs that were refused");
        }
    }
}

/// Lowers each partition's offset to the lowest of `limits`.
fn lower(offsets: &mut Offsets, limits: impl Iterator<Item = (i32, i64)>) {
    for (partition, limit) in limits {
        if let Some(offset) = offsets.get_mut(&partition) {
            *offset = limit.min(*offset);
        }
    }
}
