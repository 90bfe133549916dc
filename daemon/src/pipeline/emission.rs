//! The second thread of the pipeline: scores chunks, hands them to the learner, writes predictions and dead letters, and
//! commits what is flushed.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use ostar_connectors::{
    event::{Chunk, Offsets},
    kafka::{Committer, DeadLetter, KafkaError, OutputError, Outputs},
    proto,
};
use ostar_model::argmax;
use tracing::warn;

use super::{
    scored::{FrozenScoring, ScoredChunk},
    scoring::{Predictions, Scoring},
};
use crate::{health::Health, metrics::Metrics};

/// Outputs are flushed and their offsets committed at least this often, while there are any.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// They are also flushed after this many events. Together with [`FLUSH_EVERY`] this bounds what a crash repeats.
const FLUSH_EVENTS: usize = 2_000;
/// How long one attempt to flush waits for the broker.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes the outputs of every event, in the order of events.
pub(crate) struct Emission {
    pub(crate) frozen: FrozenScoring,
    pub(crate) scoring: Scoring,
    pub(crate) outputs: Outputs,
    pub(crate) committer: Committer,
    /// Outputs of events before these offsets were flushed by an earlier run.
    pub(crate) emitted: Offsets,
    pub(crate) classes: Vec<String>,
    /// How long flushes may fail before the process is not ready.
    pub(crate) patience: Duration,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) pending: Pending,
}

/// Outputs between sending and commit.
#[derive(Default)]
pub(crate) struct Pending {
    /// Chunks whose outputs were sent but not flushed.
    unflushed: Vec<(Arc<ScoredChunk>, Predictions)>,
    /// Messages that were sent since the last flush.
    sent: Sent,
    /// The last flush lost messages: all of `unflushed` has to be sent again.
    send_again: bool,
    /// Start of the current run of failed flushes.
    failing_since: Option<Instant>,
    /// Offsets behind the chunks that were flushed since the last commit.
    flushed: Offsets,
}

#[derive(Debug, Default)]
struct Sent {
    predictions: u64,
    dead_letters: u64,
}

impl Emission {
    /// Runs until ingest closes the channel. The learner gets each chunk before its outputs are written, so that it does
    /// not wait for them.
    pub(crate) fn run(
        mut self,
        chunks: &Receiver<Chunk>,
        learner: Sender<Arc<ScoredChunk>>,
    ) -> Result<()> {
        let mut last_commit = Instant::now();
        loop {
            let wait = FLUSH_EVERY.saturating_sub(last_commit.elapsed());
            match chunks.recv_timeout(wait) {
                Ok(chunk) => {
                    let chunk = Arc::new(self.frozen.score(chunk)?);
                    self.metrics.ingest.set_waiting("learner", learner.len());
                    // The learner's thread has already reported its failure if it is gone.
                    let _ = learner.send(Arc::clone(&chunk));
                    let predictions = self.scoring.score(&chunk)?;
                    self.emit(&chunk, &predictions)?;
                    self.show_in_flight();
                    self.pending.unflushed.push((chunk, predictions));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.metrics.ingest.set_waiting("learner", learner.len());
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let waiting: usize = self
                .pending
                .unflushed
                .iter()
                .map(|(chunk, _)| chunk.events.len())
                .sum();
            let due = last_commit.elapsed() >= FLUSH_EVERY;
            if due || waiting >= FLUSH_EVENTS {
                let delivered = self.flush();
                // Where no outputs are written, a crash repeats none: commit once per FLUSH_EVERY, without waiting.
                if due || delivered > 0 {
                    self.commit(match delivered {
                        0 => Committer::commit,
                        1.. => Committer::commit_and_wait,
                    });
                    last_commit = Instant::now();
                }
            }
        }
        // Before the last flushes, which may take long: the learner can end meanwhile.
        drop(learner);
        // Without a limit of its own: `Pipeline::stop` waits for this thread no longer than the shutdown deadline.
        while !self.pending.unflushed.is_empty() {
            self.flush();
        }
        self.commit(Committer::commit_and_wait);
        Ok(())
    }

    fn emit(&mut self, chunk: &ScoredChunk, predictions: &Predictions) -> Result<(), OutputError> {
        let emitted = &self.emitted;
        let is_new =
            |partition: i32, offset: i64| offset >= emitted.get(&partition).copied().unwrap_or(0);
        let rows = predictions.probabilities.chunks_exact(self.classes.len());
        if self.outputs.takes_predictions() {
            for (event, probabilities) in chunk.events.iter().zip(rows) {
                if !is_new(event.partition, event.offset) {
                    continue;
                }
                let class = argmax(probabilities);
                let prediction = proto::Prediction {
                    id: event.id.as_deref().unwrap_or_default().to_owned(),
                    probabilities: probabilities.to_vec(),
                    class: class as u32,
                    class_name: self.classes[class].clone(),
                    version: Some(proto::Version {
                        epoch: predictions.version.epoch,
                        step: predictions.version.step,
                    }),
                };
                send(|| self.outputs.send_prediction(event, &prediction))?;
                self.pending.sent.predictions += 1;
            }
        }
        for rejected in &chunk.rejected {
            if is_new(rejected.partition, rejected.offset) {
                let letter = DeadLetter {
                    partition: rejected.partition,
                    offset: rejected.offset,
                    key: rejected.key.as_deref(),
                    payload: &rejected.payload,
                    size: rejected.size,
                    reason: rejected.reject.reason.as_str(),
                    detail: &rejected.reject.detail,
                };
                send(|| self.outputs.send_dead_letter(&letter))?;
                self.pending.sent.dead_letters += 1;
            }
        }
        Ok(())
    }

    /// Flushes and returns the number of messages delivered. After a failure the chunks stay, to be flushed or sent again.
    fn flush(&mut self) -> u64 {
        if self.pending.unflushed.is_empty() {
            return 0;
        }
        let start = Instant::now();
        match self.deliver() {
            Ok(()) => {
                self.pending.failing_since = None;
                self.health.clear("outputs");
                let outputs = &self.metrics.outputs;
                let sent = std::mem::take(&mut self.pending.sent);
                outputs.predictions.delivered(sent.predictions);
                outputs.dead_letters.delivered(sent.dead_letters);
                self.show_in_flight();
                for (chunk, _) in self.pending.unflushed.drain(..) {
                    self.pending.flushed.extend(&chunk.next);
                }
                sent.predictions + sent.dead_letters
            }
            Err(error) => {
                warn!(%error, chunks = self.pending.unflushed.len(), "cannot deliver outputs");
                let failing = self.pending.failing_since.get_or_insert(start).elapsed();
                let is_lost = matches!(error, OutputError::Lost { .. });
                // A broker that is away may come back within `patience`. Lost messages were refused: not ready at once.
                if is_lost || failing >= self.patience {
                    self.health.obstruct("outputs", error.to_string());
                }
                if is_lost {
                    let sent = std::mem::take(&mut self.pending.sent);
                    let outputs = &self.metrics.outputs;
                    outputs.predictions.failed(sent.predictions);
                    outputs.dead_letters.failed(sent.dead_letters);
                    self.pending.send_again = true;
                }
                0
            }
        }
    }

    fn show_in_flight(&self) {
        let outputs = &self.metrics.outputs;
        outputs
            .predictions
            .set_in_flight(self.pending.sent.predictions as usize);
        outputs
            .dead_letters
            .set_in_flight(self.pending.sent.dead_letters as usize);
    }

    fn deliver(&mut self) -> Result<(), OutputError> {
        if self.pending.send_again {
            // Taken out, because `emit` needs all of `self`.
            let unflushed = std::mem::take(&mut self.pending.unflushed);
            let emitted = unflushed
                .iter()
                .try_for_each(|(chunk, predictions)| self.emit(chunk, predictions));
            self.pending.unflushed = unflushed;
            emitted?;
            self.pending.send_again = false;
        }
        self.outputs.flush(FLUSH_TIMEOUT)
    }

    fn commit(&mut self, commit: fn(&Committer, &Offsets) -> Result<(), KafkaError>) {
        let mut next = std::mem::take(&mut self.pending.flushed);
        if next.is_empty() {
            return;
        }
        // The group's offset never goes back. Events that are read again only to be learned were emitted before.
        for (partition, offset) in &mut next {
            let emitted = self.emitted.get(partition).copied().unwrap_or(0);
            *offset = emitted.max(*offset);
        }
        if let Err(error) = commit(&self.committer, &next) {
            warn!(%error, "cannot commit offsets to the group");
        }
    }
}

/// Hands a message to librdkafka, again and again while its queue is full. Each attempt waits for room.
fn send(mut hand_over: impl FnMut() -> Result<(), OutputError>) -> Result<(), OutputError> {
    loop {
        match hand_over() {
            Err(OutputError::Full) => warn!("queue of outgoing messages is full, waiting"),
            outcome => return outcome,
        }
    }
}
