//! Writes the state topic, as its one writer.

use std::time::{Duration, Instant};

use rdkafka::{
    consumer::ConsumerGroupMetadata,
    error::KafkaError as RdKafkaError,
    producer::{BaseProducer, BaseRecord, Producer},
};

use super::{
    MANIFEST_KEY, PARTITION, PartKind, StateError,
    follower::{Followed, StateFollower, Wanted},
    manifest::{CHUNK_BYTES, StateManifest, chunks_of},
};
use crate::{
    checkpoint::Manifest,
    clock::now_ms,
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
    /// What the snapshot and the checkpoint were learned from; neither is published without it. Its orders are in force
    /// from now on.
    pub manifest: Option<Manifest>,
    /// Bytes of a snapshot.
    pub snapshot: Option<&'a [u8]>,
    /// Bytes of a checkpoint.
    pub checkpoint: Option<&'a [u8]>,
    /// Share of the events that scorers pass on.
    pub sample_share: Option<f64>,
    /// Commits with a checkpoint what it has learned, for the learner's group: tools show lag by it.
    pub committer: Option<&'a Committer>,
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
        let manifest = newest.as_ref().map(|newest| newest.manifest.clone());
        let mut manifest = manifest.unwrap_or_else(StateManifest::empty);
        manifest.epoch += 1;
        let mut writer = Self {
            producer,
            topic: topic.to_owned(),
            id,
            manifest: manifest.clone(),
            open: Open::No,
        };
        writer.transact(manifest, &[], None)?;
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
        // The manifest is the topic's only once this has ended.
        self.settle()?;
        let mut next = self.manifest.clone();
        next.sample_share = publication.sample_share.unwrap_or(next.sample_share);
        let mut parts: Vec<(PartKind, &[u8])> = Vec::new();
        let mut offsets = None;
        if let Some(manifest) = publication.manifest {
            if let Some(bytes) = publication.snapshot {
                next.snapshot = Some(manifest.clone().sealed(bytes));
                parts.push((PartKind::Snapshot, bytes));
            } else if let Some(newest) = &mut next.snapshot {
                newest.orders.clone_from(&manifest.orders);
            }
            if let Some(bytes) = publication.checkpoint {
                let learned = manifest.position.learned.clone();
                offsets = publication.committer.zip(Some(learned));
                next.checkpoint = Some(manifest.sealed(bytes));
                parts.push((PartKind::Checkpoint, bytes));
            }
        }
        self.transact(next, &parts, offsets)
    }

    fn transact(
        &mut self,
        mut next: StateManifest,
        parts: &[(PartKind, &[u8])],
        offsets: Option<(&Committer, Offsets)>,
    ) -> Result<(), StateError> {
        next.sequence += 1;
        next.written_at_ms = now_ms();
        if let Err(error) = self.send(parts, &next, offsets) {
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
        offsets: Option<(&Committer, Offsets)>,
    ) -> Result<(), RdKafkaError> {
        self.producer.begin_transaction()?;
        for (kind, bytes) in parts {
            for (number, chunk) in bytes.chunks(CHUNK_BYTES).enumerate() {
                self.queue(&kind.key(number), Some(chunk))?;
            }
            // A shorter state leaves chunks of the longer one behind: their keys are removed.
            let before = self.manifest.part(*kind).map_or(0, |part| part.length);
            for number in chunks_of(bytes.len())..chunks_of(before) {
                self.queue(&kind.key(number), None)?;
            }
        }
        let json = serde_json::to_vec(next).unwrap_or_default();
        self.queue(MANIFEST_KEY, Some(&json))?;
        if let Some((committer, offsets)) = offsets
            && let Some(group) = committer.group_metadata()
        {
            self.commit_offsets(committer.topic(), &offsets, &group)?;
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
