//! Asks the broker about a topic, on a thread of its own so that polling never waits for the answer.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::Consumer as _,
    error::KafkaError as RdKafkaError,
    metadata::{Metadata, MetadataTopic},
};

use super::{
    client::Consumer,
    connection::numeric_offsets,
    error::{KafkaError, describe as describe_error},
    patience::{ask, is_not_yet},
    topic_description::describe,
};
use crate::event::Offsets;

/// The offsets that a partition holds: `low` is the first, `high` the one that the next event will get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watermarks {
    pub(super) low: i64,
    pub(super) high: i64,
}

/// The partitions of a topic at some moment.
pub(super) type Partitions = BTreeMap<i32, Watermarks>;

/// What a look at the broker has found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) partitions: Partitions,
    /// Tells this creation of the topic from others; `None` if the broker does not say.
    pub(super) id: Option<String>,
}

/// A topic and the client that reads it.
#[derive(Clone)]
pub(super) struct Topic {
    pub(super) consumer: Arc<Consumer>,
    pub(super) name: String,
    pub(super) brokers: String,
}

pub(super) struct Report {
    /// Positions of the reader when it asked.
    pub(super) asked_at: Offsets,
    pub(super) found: Result<Found, KafkaError>,
}

/// A thread that looks at the topic on request. Dropping it waits for the request under way.
pub(super) struct Watcher {
    /// Set to `None` by drop, which ends the thread.
    requests: Option<SyncSender<Offsets>>,
    reports: Receiver<Report>,
    waiting: bool,
    thread: Option<JoinHandle<()>>,
}

/// Longer than a healthy broker takes under load. A shutdown waits at most this long for a dead one.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The id is asked for last, and only helps: a broker that does not tell it must not hold reading up.
const ID_TIMEOUT: Duration = Duration::from_secs(2);
/// Polls that drain librdkafka's pending errors after failed connections, with room to spare.
const POLLS_FOR_REASON: usize = 64;

// === impl Topic ===

impl Topic {
    pub(super) fn new(consumer: Arc<Consumer>, name: &str, brokers: &str) -> Self {
        Self {
            consumer,
            name: name.to_owned(),
            brokers: brokers.to_owned(),
        }
    }

    /// Fetches the topic's partitions, their watermarks, and the topic's id.
    pub(super) fn look(&self, timeout: Duration) -> Result<Found, KafkaError> {
        let deadline = Instant::now() + timeout;
        let metadata = self.metadata(timeout)?;
        let partitions = self.in_metadata(&metadata).map(|topic| topic.partitions());
        let partitions = partitions.unwrap_or_default().iter();
        let ids: Vec<i32> = partitions.map(|partition| partition.id()).collect();
        let left = || deadline.saturating_duration_since(Instant::now());
        let lows = self.edges(&ids, Offset::Beginning, left())?;
        let highs = self.edges(&ids, Offset::End, left())?;
        let mut partitions = Partitions::new();
        for (partition, low) in lows {
            if let Some(high) = highs.get(&partition) {
                partitions.insert(partition, Watermarks { low, high: *high });
            }
        }
        let described = describe(&self.consumer, &self.name, false, left().min(ID_TIMEOUT));
        let id = described.and_then(|described| described.id);
        Ok(Found { partitions, id })
    }

    /// The client's own positions. Unlike those of the records that were polled, they lie behind markers of transactions.
    /// A partition without a position yet is absent.
    pub(super) fn positions(&self) -> Offsets {
        match self.consumer.position() {
            Ok(list) => numeric_offsets(&list),
            Err(error) => {
                tracing::debug!(error = %describe_error(&error), "no positions from librdkafka");
                Offsets::new()
            }
        }
    }

    /// Fetches the topic's partitions, of which it has at least one.
    pub(super) fn metadata(&self, timeout: Duration) -> Result<Metadata, KafkaError> {
        let metadata = ask(timeout, |left| {
            let metadata = self.consumer.fetch_metadata(Some(&self.name), left)?;
            let refused = self.in_metadata(&metadata).and_then(MetadataTopic::error);
            match refused.map(|code| RdKafkaError::MetadataFetch(code.into())) {
                Some(error) if is_not_yet(&error) => Err(error),
                _ => Ok(metadata),
            }
        });
        let metadata = metadata.map_err(|error| {
            if is_not_yet(&error) {
                self.no_topic(describe_error(&error))
            } else {
                self.unreachable(&error)
            }
        })?;
        let Some(topic) = self.in_metadata(&metadata) else {
            return Err(self.no_topic("the broker does not list it".to_owned()));
        };
        if let Some(error) = topic.error() {
            let reason = rdkafka::types::RDKafkaErrorCode::from(error);
            return Err(self.no_topic(reason.to_string()));
        }
        if topic.partitions().is_empty() {
            return Err(self.no_topic("it has no partitions yet".to_owned()));
        }
        Ok(metadata)
    }

    /// What a cluster's metadata say of the topic.
    pub(super) fn in_metadata<'m>(&self, metadata: &'m Metadata) -> Option<&'m MetadataTopic> {
        let mut topics = metadata.topics().iter();
        topics.find(|topic| topic.name() == self.name)
    }

    /// The first or the last offset of all partitions, with one request to each broker: asked one after the other, a
    /// thousand partitions would take too long.
    fn edges(
        &self,
        partitions: &[i32],
        edge: Offset,
        timeout: Duration,
    ) -> Result<Offsets, KafkaError> {
        let mut asked = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            asked
                .add_partition_offset(&self.name, *partition, edge)
                .map_err(|error| self.unreachable(&error))?;
        }
        // The protocol asks for both edges as for a time, with a number that no time has.
        let answered = ask(timeout, |left| {
            let answered = self.consumer.offsets_for_times(asked.clone(), left)?;
            let refused = answered.elements().iter().find_map(|e| e.error().err());
            refused.map_or(Ok(answered), Err)
        });
        let answered = answered.map_err(|error| self.unreachable(&error))?;
        let mut offsets = Offsets::new();
        for element in answered.elements() {
            let Offset::Offset(offset) = element.offset() else {
                return Err(self.no_topic(format!(
                    "the broker does not tell the offsets of partition {}",
                    element.partition()
                )));
            };
            offsets.insert(element.partition(), offset);
        }
        Ok(offsets)
    }

    /// An error with the reason that librdkafka last gave.
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

/// Replaces the reason that no broker answers by librdkafka's, which comes by polling. Nothing may be assigned yet: these
/// polls would swallow records.
pub(super) fn first_reason(topic: &Topic, error: KafkaError) -> KafkaError {
    let KafkaError::Unreachable { brokers, reason } = error else {
        return error;
    };
    for _ in 0..POLLS_FOR_REASON {
        topic.consumer.poll(Duration::ZERO);
    }
    let explained = topic.consumer.context().take_last_error();
    KafkaError::Unreachable {
        brokers,
        reason: explained.unwrap_or(reason),
    }
}

// === impl Watcher ===

impl Watcher {
    pub(super) fn start(topic: Topic) -> Result<Self, KafkaError> {
        // Room for one: there is at most one request or report under way.
        let (request_sender, requests) = sync_channel::<Offsets>(1);
        let (report_sender, reports) = sync_channel(1);
        let serve = move || {
            for asked_at in requests {
                let report = Report {
                    asked_at,
                    found: topic.look(FETCH_TIMEOUT),
                };
                if report_sender.send(report).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("kafka-watcher".to_owned());
        let thread = thread.spawn(serve).map_err(|error| {
            KafkaError::Fatal(format!("cannot start the thread kafka-watcher: {error}"))
        })?;
        Ok(Self {
            requests: Some(request_sender),
            reports,
            waiting: false,
            thread: Some(thread),
        })
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Requests the partitions, unless a request is under way.
    pub(super) fn request(&mut self, positions: Offsets) {
        if let (false, Some(requests)) = (self.waiting, &self.requests) {
            self.waiting = requests.try_send(positions).is_ok();
        }
    }

    /// The report, if it arrives within the timeout.
    pub(super) fn report(&mut self, timeout: Duration) -> Result<Option<Report>, KafkaError> {
        let report = if timeout.is_zero() {
            // Called once in 64 records: `recv_timeout` would read the clock.
            self.reports.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            })
        } else {
            self.reports.recv_timeout(timeout)
        };
        match report {
            Ok(report) => {
                self.waiting = false;
                Ok(Some(report))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(KafkaError::Fatal(
                "the thread kafka-watcher ended".to_owned(),
            )),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.requests = None;
        // The thread holds the client. It must not outlive the reader: the next one would find the group in use.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
