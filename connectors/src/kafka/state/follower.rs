//! Reads the state topic.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use rdkafka::{
    Message as _, Offset, TopicPartitionList, consumer::Consumer as _,
    error::KafkaError as RdKafkaError,
};
use tracing::debug;

use super::{
    MANIFEST_KEY, PARTITION, PartKind, StateError,
    manifest::{StateManifest, join},
};
use crate::{
    checkpoint::{Checkpoint, StateBytes, read_manifest},
    kafka::{
        KafkaSettings,
        client::{self, Consumer, Context},
        error::{KafkaError, describe, fatal},
    },
};

/// What a follower keeps in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Snapshots, to serve them.
    Snapshots,
    /// Checkpoints as well, to go on learning.
    Everything,
}

/// A complete state: all that the manifest names was there, and fitted its digests.
#[derive(Debug, Clone)]
pub struct Followed {
    /// What the topic says.
    pub manifest: StateManifest,
    /// Bytes of the snapshot; `None` if there is none, or if it is the one that was given out last.
    pub snapshot: Option<Vec<u8>>,
    /// Bytes of the checkpoint's state; `None` if there is none or none is wanted.
    pub checkpoint: Option<Vec<u8>>,
}

/// Reads the topic from its beginning and goes on with what is written. Sees committed transactions only.
pub struct StateFollower {
    consumer: Consumer,
    topic: String,
    brokers: String,
    wanted: Wanted,
    chunks: BTreeMap<(PartKind, usize), Vec<u8>>,
    /// The snapshot that was given out last.
    snapshot: Option<StateBytes>,
    /// The newest manifest before the topic was read to its end for the first time: older ones are of no use.
    newest: Option<StateManifest>,
    /// Of any manifest, whether its chunks were there or not.
    newest_epoch: u64,
    is_at_end: bool,
}

/// Chunks of one part that are kept at most: a gigabyte.
const MOST_CHUNKS: usize = 1_200;
const POLL: Duration = Duration::from_millis(200);

impl Followed {
    /// The checkpoint of this topic; `None` if there is none or none was wanted.
    pub fn into_checkpoint(self, topic: &str) -> Option<Checkpoint> {
        Some(Checkpoint {
            manifest: self.manifest.checkpoint?,
            state: self.checkpoint?,
            path: PathBuf::from(format!("of topic {topic}")),
        })
    }
}

impl StateFollower {
    /// Starts to read. Does not wait for a broker.
    pub fn open(settings: &KafkaSettings, topic: &str, wanted: Wanted) -> Result<Self, KafkaError> {
        let mut config = client::consumer_config(settings)?;
        config
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest");
        let consumer: Consumer = client::create(&config, Context::default())?;
        let mut list = TopicPartitionList::new();
        let assigned = list
            .add_partition_offset(topic, PARTITION, Offset::Beginning)
            .and_then(|()| consumer.assign(&list));
        assigned.map_err(fatal)?;
        Ok(Self {
            consumer,
            topic: topic.to_owned(),
            brokers: settings.brokers.clone(),
            wanted,
            chunks: BTreeMap::new(),
            snapshot: None,
            newest: None,
            newest_epoch: 0,
            is_at_end: false,
        })
    }

    /// The next complete state, if one arrives within the timeout.
    pub fn poll(&mut self, timeout: Duration) -> Result<Option<Followed>, StateError> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (key, value) = match self.consumer.poll(left) {
                None => return Ok(None),
                Some(Ok(message)) => {
                    let key = String::from_utf8_lossy(message.key().unwrap_or_default());
                    (key.into_owned(), message.payload().map(<[u8]>::to_vec))
                }
                Some(Err(RdKafkaError::PartitionEOF(_))) => {
                    self.is_at_end = true;
                    let newest = self.newest.take();
                    return Ok(newest.and_then(|newest| self.complete(newest)));
                }
                Some(Err(RdKafkaError::MessageConsumptionFatal(code))) => {
                    return Err(KafkaError::Fatal(code.to_string()).into());
                }
                Some(Err(error)) => {
                    debug!(error = %describe(&error), "librdkafka reported an error of the state topic");
                    continue;
                }
            };
            if let Some(followed) = self.take(&key, value)? {
                return Ok(Some(followed));
            }
        }
    }

    /// Whether everything was read that was there a moment ago.
    pub fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    /// Reads to the end; the newest complete state, or `None` if there is none.
    pub fn read_all(&mut self, timeout: Duration) -> Result<Option<Followed>, StateError> {
        let deadline = Instant::now() + timeout;
        let mut newest = None;
        while !self.is_at_end {
            newest = self.poll(POLL)?;
            if Instant::now() >= deadline {
                let reason = self.consumer.context().take_last_error();
                return Err(StateError::Kafka(KafkaError::NoTopic {
                    topic: self.topic.clone(),
                    brokers: self.brokers.clone(),
                    reason: reason
                        .unwrap_or_else(|| "it is not read to its end in time".to_owned()),
                }));
            }
        }
        if newest.is_none() && self.newest_epoch > 0 {
            return Err(StateError::Unreadable {
                topic: self.topic.clone(),
                problem: "has a manifest whose chunks are missing or damaged; delete the topic and make it again to \
                          learn from nothing"
                    .to_owned(),
            });
        }
        Ok(newest)
    }

    fn take(&mut self, key: &str, value: Option<Vec<u8>>) -> Result<Option<Followed>, StateError> {
        if let Some((kind, number)) = PartKind::parse(key) {
            let is_wanted = kind == PartKind::Snapshot || self.wanted == Wanted::Everything;
            match value {
                Some(value) if is_wanted && number < MOST_CHUNKS => {
                    self.chunks.insert((kind, number), value);
                }
                _ => drop(self.chunks.remove(&(kind, number))),
            }
            return Ok(None);
        }
        let Some(bytes) = value.filter(|_| key == MANIFEST_KEY) else {
            return Ok(None);
        };
        let manifest = self.read_manifest(&bytes)?;
        self.newest_epoch = manifest.epoch;
        if !self.is_at_end {
            self.newest = Some(manifest);
            return Ok(None);
        }
        Ok(self.complete(manifest))
    }

    fn read_manifest(&self, bytes: &[u8]) -> Result<StateManifest, StateError> {
        read_manifest(bytes).map_err(|problem| StateError::Unreadable {
            topic: self.topic.clone(),
            problem: format!(
                "was written by another version or program: {problem}; use the ostard that wrote it, or another topic"
            ),
        })
    }

    /// The state, if all that the manifest names is there. Otherwise compaction has removed a part of it, and a newer
    /// manifest follows.
    fn complete(&mut self, manifest: StateManifest) -> Option<Followed> {
        let mut snapshot = None;
        let newest = manifest.part(PartKind::Snapshot);
        if newest != self.snapshot.as_ref() {
            snapshot = self.join(PartKind::Snapshot, newest)?;
            self.snapshot = newest.cloned();
        }
        let checkpoint = match self.wanted {
            Wanted::Snapshots => None,
            Wanted::Everything => {
                self.join(PartKind::Checkpoint, manifest.part(PartKind::Checkpoint))?
            }
        };
        Some(Followed {
            manifest,
            snapshot,
            checkpoint,
        })
    }

    /// The bytes of a part that the manifest names, if it does; `None` if they are not there.
    fn join(&self, kind: PartKind, part: Option<&StateBytes>) -> Option<Option<Vec<u8>>> {
        let Some(part) = part else {
            return Some(None);
        };
        let joined = join(part, |number| self.chunks.get(&(kind, number)));
        if joined.is_none() {
            debug!(
                part = kind.name(),
                "a part of the state was removed or replaced; a newer one follows"
            );
        }
        joined.map(Some)
    }
}
