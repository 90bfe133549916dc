//! Writes the state topic, as its one writer.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rdkafka::{
    consumer::ConsumerGroupMetadata,
    error::KafkaError as RdKafkaError,
    producer::{BaseProducer, BaseRecord, Producer},
};

use super::{
    MANIFEST_KEY, PARTITION, PartKind, StateError,
    follower::{Followed, StateFollower, Wanted},
    manifest::{CHUNK_BYTES, CheckpointEntry, FORMAT_VERSION, Part, SnapshotEntry, StateManifest},
};
use crate::{
    checkpoint::{Manifest, Orders},
    event::Offsets,
    kafka::{
        KafkaSettings,
        client::{self, Context},
        connection::{Committer, partition_list},
        error::KafkaError,
    },
};

/// The right to write, and a transactional producer. Whoever opens another one for the same topic fences this one: the
/// broker then refuses everything it sends.
pub struct StateWriter {
    producer: BaseProducer<Context>,
    topic: String,
    id: String,
    /// As the topic has it.
    manifest: StateManifest,
    open: Open,
}

/// A transaction that could not be ended.
enum Open {
    No,
    /// What it publishes.
    Committing(Box<StateManifest>),
    Aborting,
}

/// What one transaction publishes. What is `None` stays as it is.
#[derive(Default)]
pub struct Publication<'a> {
    /// A snapshot and its bytes.
    pub snapshot: Option<(SnapshotEntry, &'a [u8])>,
    /// A checkpoint and its bytes.
    pub checkpoint: Option<(Manifest, &'a [u8])>,
    /// Orders in force.
    pub orders: Option<Orders>,
    /// Share of the events that scorers pass on.
    pub sample_share: Option<f64>,
    /// What was learned, for the learner's group: tools show lag by it.
    pub offsets: Option<(&'a Committer, &'a Offsets)>,
}

/// How long a transaction may stay open; the broker then aborts it.
const TRANSACTION_TIMEOUT: &str = "30000";
/// How long the broker may take for a record, and for the end of a transaction.
const TIMEOUT: Duration = Duration::from_secs(5);

const DELIVERY_POLL: Duration = Duration::from_millis(2);

impl StateWriter {
    /// Fences every earlier writer of the topic, reads what it holds, and claims the next epoch with a first record.
    /// Returns the newest checkpoint, too.
    pub fn open(
        settings: &KafkaSettings,
        topic: &str,
        timeout: Duration,
    ) -> Result<(Self, Option<Followed>), StateError> {
        let id = format!("ostard-{topic}");
        let mut config = client::producer_config(settings)?;
        config
            .set("transactional.id", &id)
            .set("transaction.timeout.ms", TRANSACTION_TIMEOUT)
            .set("message.timeout.ms", TIMEOUT.as_millis().to_string())
            .set("linger.ms", "0");
        let producer: BaseProducer<Context> = client::create(&config, Context::default())?;
        let fenced = producer.init_transactions(timeout);
        fenced.map_err(|error| StateError::of(&error, topic, &id))?;
        // Only now: nobody else can write between the look and the claim.
        let mut follower = StateFollower::open(settings, topic, Wanted::Everything)?;
        let newest = follower.read_all(timeout)?;
        let manifest = match &newest {
            Some(newest) => newest.manifest.clone(),
            None => StateManifest {
                format_version: FORMAT_VERSION,
                epoch: 0,
                sequence: 0,
                written_at_ms: 0,
                orders: Orders::default(),
                sample_share: 1.0,
                snapshot: None,
                checkpoint: None,
            },
        };
        let epoch = manifest.epoch + 1;
        let mut writer = Self {
            producer,
            topic: topic.to_owned(),
            id,
            manifest: StateManifest { epoch, ..manifest },
            open: Open::No,
        };
        writer.publish(Publication::default())?;
        Ok((writer, newest))
    }

    /// Epoch of this writer.
    pub fn epoch(&self) -> u64 {
        self.manifest.epoch
    }

    /// What the topic says now.
    pub fn manifest(&self) -> &StateManifest {
        &self.manifest
    }

    /// Publishes in one transaction. After a transient error nothing of it is in the topic; call again with newer values.
    pub fn publish(&mut self, publication: Publication<'_>) -> Result<(), StateError> {
        let Publication {
            snapshot,
            checkpoint,
            orders,
            sample_share,
            offsets,
        } = publication;
        let mut next = self.manifest.clone();
        next.format_version = FORMAT_VERSION;
        next.sequence += 1;
        next.written_at_ms = now_ms();
        next.orders = orders.unwrap_or(next.orders);
        next.sample_share = sample_share.unwrap_or(next.sample_share);
        let mut parts: Vec<(PartKind, &[u8])> = Vec::new();
        if let Some((entry, bytes)) = snapshot {
            next.snapshot = Some(entry);
            parts.push((PartKind::Snapshot, bytes));
        }
        if let Some((manifest, bytes)) = checkpoint {
            let part = Part::of(bytes);
            next.checkpoint = Some(CheckpointEntry { manifest, part });
            parts.push((PartKind::Checkpoint, bytes));
        }
        self.settle()?;
        if let Err(error) = self.send(&parts, &next, offsets) {
            return Err(self.failed(&error, None));
        }
        self.open = Open::Committing(Box::new(next));
        self.deliver();
        self.settle()
    }

    /// Waits until the broker has taken all records. The client's own flush sleeps for a tenth of a second.
    fn deliver(&self) {
        let deadline = Instant::now() + TIMEOUT;
        while self.producer.in_flight_count() > 0 && Instant::now() < deadline {
            self.producer.poll(DELIVERY_POLL);
        }
    }

    /// Ends the transaction that is open, if there is one. What cannot be ended now is ended by the next call.
    fn settle(&mut self) -> Result<(), StateError> {
        match std::mem::replace(&mut self.open, Open::No) {
            Open::No => Ok(()),
            Open::Committing(next) => match self.producer.commit_transaction(TIMEOUT) {
                Ok(()) => {
                    self.manifest = *next;
                    Ok(())
                }
                Err(error) => Err(self.failed(&error, Some(next))),
            },
            Open::Aborting => {
                let aborted = self.producer.abort_transaction(TIMEOUT);
                aborted.map_err(|error| {
                    self.open = Open::Aborting;
                    let told = StateError::of(&error, &self.topic, &self.id);
                    self.fatal().unwrap_or(told)
                })
            }
        }
    }

    /// Decides what becomes of the transaction that is open.
    fn failed(
        &mut self,
        error: &RdKafkaError,
        committing: Option<Box<StateManifest>>,
    ) -> StateError {
        if let Some(fatal) = self.fatal() {
            return fatal;
        }
        let told = StateError::of(error, &self.topic, &self.id);
        match (error, committing) {
            // The broker may have committed it already: asked again, it tells.
            (RdKafkaError::Transaction(error), Some(next))
                if error.is_retriable() && !error.txn_requires_abort() =>
            {
                self.open = Open::Committing(next);
            }
            _ => {
                self.open = Open::Aborting;
                // If this fails, the next publication tries again.
                let _ = self.settle();
            }
        }
        told
    }

    fn send(
        &self,
        parts: &[(PartKind, &[u8])],
        next: &StateManifest,
        offsets: Option<(&Committer, &Offsets)>,
    ) -> Result<(), RdKafkaError> {
        self.producer.begin_transaction()?;
        for (kind, bytes) in parts {
            for (number, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
                self.queue(&kind.key(number), Some(chunk))?;
            }
            // A shorter state leaves chunks of the longer one behind: their keys are removed.
            let chunks = bytes.len().div_ceil(CHUNK_BYTES);
            for number in chunks..chunks_of(&self.manifest, *kind) {
                self.queue(&kind.key(number), None)?;
            }
        }
        let json = serde_json::to_vec(next).unwrap_or_default();
        self.queue(MANIFEST_KEY, Some(&json))?;
        if let Some((committer, offsets)) = offsets
            && let Some(group) = committer.group_metadata()
        {
            self.commit_offsets(committer.topic(), offsets, &group)?;
        }
        Ok(())
    }

    fn queue(&self, key: &str, value: Option<&[u8]>) -> Result<(), RdKafkaError> {
        let mut record = BaseRecord::<str, [u8]>::to(&self.topic)
            .partition(PARTITION)
            .key(key);
        if let Some(value) = value {
            record = record.payload(value);
        }
        self.producer.send(record).map_err(|(error, _)| error)
    }

    fn commit_offsets(
        &self,
        topic: &str,
        offsets: &Offsets,
        group: &ConsumerGroupMetadata,
    ) -> Result<(), RdKafkaError> {
        let pairs = offsets.iter().map(|(partition, next)| (*partition, *next));
        match partition_list(topic, pairs) {
            Ok(list) if list.count() > 0 => self
                .producer
                .send_offsets_to_transaction(&list, group, TIMEOUT),
            _ => Ok(()),
        }
    }

    /// The error after which the producer sends nothing any more.
    fn fatal(&self) -> Option<StateError> {
        let (code, text) = self.producer.client().fatal_error()?;
        match StateError::of(&RdKafkaError::Global(code), &self.topic, &self.id) {
            fenced @ StateError::Fenced { .. } => Some(fenced),
            _ => Some(StateError::Kafka(KafkaError::Fatal(text))),
        }
    }
}

fn chunks_of(manifest: &StateManifest, kind: PartKind) -> usize {
    let part = match kind {
        PartKind::Snapshot => manifest.snapshot.as_ref().map(|entry| &entry.part),
        PartKind::Checkpoint => manifest.checkpoint.as_ref().map(|entry| &entry.part),
    };
    part.map_or(0, |part| part.chunks)
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
