//! What the broker says about a topic, asked for on a thread of its own so that polling never waits for it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rdkafka::{consumer::Consumer as _, error::KafkaError as RdKafkaError};

use super::{client::Consumer, error::KafkaError};
use crate::event::Offsets;

/// Offsets that a partition holds: from the first, up to the one that the next event will get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watermarks {
    pub(super) low: i64,
    pub(super) high: i64,
}

/// The partitions of a topic at some moment.
pub(super) type Partitions = BTreeMap<i32, Watermarks>;

/// A topic and the client that reads it.
#[derive(Clone)]
pub(super) struct Topic {
    pub(super) consumer: Arc<Consumer>,
    pub(super) name: String,
    pub(super) brokers: String,
}

/// An answer of the watcher.
pub(super) struct Report {
    /// Where reading was when the question was asked.
    pub(super) asked_at: Offsets,
    pub(super) partitions: Result<Partitions, KafkaError>,
}

/// A thread that looks at the topic when it is asked to. Dropping it waits for the look under way.
pub(super) struct Watcher {
    /// `None` ends the thread.
    questions: Option<SyncSender<Offsets>>,
    reports: Receiver<Report>,
    waiting: bool,
    thread: Option<JoinHandle<()>>,
}

/// Longer than a healthy broker takes under load; a stop waits no longer than this for a dead one.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

// === impl Topic ===

impl Topic {
    /// The topic's partitions and what they hold.
    pub(super) fn look(&self, timeout: Duration) -> Result<Partitions, KafkaError> {
        let deadline = Instant::now() + timeout;
        let metadata = self
            .consumer
            .fetch_metadata(Some(&self.name), timeout)
            .map_err(|error| self.unreachable(&error))?;
        let topic = metadata.topics().iter().find(|t| t.name() == self.name);
        let Some(topic) = topic else {
            return Err(self.no_topic("the broker does not list it".to_owned()));
        };
        if let Some(error) = topic.error() {
            let reason = rdkafka::types::RDKafkaErrorCode::from(error);
            return Err(self.no_topic(reason.to_string()));
        }
        if topic.partitions().is_empty() {
            return Err(self.no_topic("it has no partitions yet".to_owned()));
        }
        let mut partitions = Partitions::new();
        for partition in topic.partitions().iter().map(|p| p.id()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let (low, high) = self
                .consumer
                .fetch_watermarks(&self.name, partition, left)
                .map_err(|error| self.unreachable(&error))?;
            partitions.insert(partition, Watermarks { low, high });
        }
        Ok(partitions)
    }

    /// That the broker cannot be reached, with the reason that librdkafka last gave.
    pub(super) fn unreachable(&self, error: &RdKafkaError) -> KafkaError {
        KafkaError::Unreachable {
            brokers: self.brokers.clone(),
            reason: self.consumer.context().explain(error),
        }
    }

    fn no_topic(&self, reason: String) -> KafkaError {
        KafkaError::NoTopic {
            topic: self.name.clone(),
            brokers: self.brokers.clone(),
            reason,
        }
    }
}

// === impl Watcher ===

impl Watcher {
    pub(super) fn start(topic: Topic) -> Result<Self, KafkaError> {
        // One question and its answer at a time.
        let (question_sender, questions) = sync_channel::<Offsets>(1);
        let (report_sender, reports) = sync_channel(1);
        let look = move || {
            for asked_at in questions {
                let report = Report {
                    asked_at,
                    partitions: topic.look(LOOK_TIMEOUT),
                };
                if report_sender.send(report).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("kafka-watcher".to_owned());
        let thread = thread
            .spawn(look)
            .map_err(|error| KafkaError::Fatal(format!("no thread to watch the topic: {error}")))?;
        Ok(Self {
            questions: Some(question_sender),
            reports,
            waiting: false,
            thread: Some(thread),
        })
    }

    /// Whether a question is under way.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Asks for a look, unless one is under way.
    pub(super) fn ask(&mut self, positions: Offsets) {
        if let (false, Some(questions)) = (self.waiting, &self.questions) {
            self.waiting = questions.try_send(positions).is_ok();
        }
    }

    /// The answer, if it is there within the time.
    pub(super) fn report(&mut self, timeout: Duration) -> Result<Option<Report>, KafkaError> {
        let report = match timeout.is_zero() {
            true => self.reports.try_recv().map_err(|error| match error {
                std::sync::mpsc::TryRecvError::Empty => RecvTimeoutError::Timeout,
                std::sync::mpsc::TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            }),
            false => self.reports.recv_timeout(timeout),
        };
        match report {
            Ok(report) => {
                self.waiting = false;
                Ok(Some(report))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(KafkaError::Fatal(
                "the thread that watches the topic ended".to_owned(),
            )),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.questions = None;
        // Its client must not outlive the reader, or another one would find the group still in use.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
