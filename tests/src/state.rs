//! What a state topic holds, read as its followers read it.

use std::time::Duration;

use anyhow::Result;
use ostar_connectors::kafka::{
    KafkaSettings,
    state::{Followed, StateFollower, StateManifest, Wanted},
};
use serde_json::Value;

pub use crate::daemon::same_but_topic as same_learning;
use crate::{
    daemon::{TIMEOUT, learned_events},
    kafka::Kafka,
    until,
};

/// Settings of a state topic that suit a test: nothing is removed, so that a test can look at every record.
pub const TOPIC: [(&str, &str); 3] = [
    ("cleanup.policy", "compact"),
    ("segment.bytes", "16777216"),
    ("min.compaction.lag.ms", "86400000"),
];

const READ: Duration = Duration::from_secs(30);

/// The newest state in the topic; `None` if there is none.
pub fn newest(kafka: &Kafka, topic: &str) -> Result<Option<Followed>> {
    let settings = KafkaSettings {
        brokers: kafka.plaintext(),
        topic: topic.to_owned(),
        ..KafkaSettings::default()
    };
    let mut follower = StateFollower::open(&settings, topic, Wanted::Everything)?;
    Ok(follower.read_all(READ)?)
}

/// Manifest and state of the newest checkpoint in the topic.
pub fn checkpoint(kafka: &Kafka, topic: &str) -> Result<Option<(Value, Vec<u8>)>> {
    let Some(followed) = newest(kafka, topic)? else {
        return Ok(None);
    };
    let (Some(manifest), Some(state)) = (followed.manifest.checkpoint, followed.checkpoint) else {
        return Ok(None);
    };
    Ok(Some((serde_json::to_value(manifest)?, state)))
}

/// Waits until the newest checkpoint in the topic has learned so many events.
pub fn reaches(kafka: &Kafka, topic: &str, events: u64) -> Result<()> {
    until(&format!("{events} events in {topic}"), TIMEOUT, || {
        let Some((manifest, _)) = checkpoint(kafka, topic)? else {
            return Ok(None);
        };
        let learned = learned_events(&manifest)?;
        Ok((learned >= events).then_some(()))
    })
}

/// All manifests that the topic still holds, oldest first, with their offsets: also those of transactions that were not
/// committed, because a learner that was fenced must not even begin one.
pub fn manifests(kafka: &Kafka, topic: &str) -> Result<Vec<(i64, StateManifest)>> {
    use rdkafka::Message as _;
    let records = kafka.read_uncommitted(topic, |message| {
        let is_manifest = message.key() == Some(b"manifest");
        let value = message.payload().filter(|_| is_manifest);
        let manifest = value.map(serde_json::from_slice).transpose()?;
        Ok(manifest.map(|manifest| (message.offset(), manifest)))
    })?;
    Ok(records.into_iter().flatten().collect())
}

/// Where the records of each learner begin and end: epoch, first and last offset. An error if a learner has written after
/// its successor's first record.
pub fn handovers(kafka: &Kafka, topic: &str) -> Result<Vec<(u64, i64, i64)>> {
    let mut lives: Vec<(u64, i64, i64)> = Vec::new();
    for (offset, manifest) in manifests(kafka, topic)? {
        match lives.last_mut() {
            Some((epoch, _, last)) if *epoch == manifest.epoch => *last = offset,
            Some((epoch, ..)) if *epoch > manifest.epoch => anyhow::bail!(
                "the learner of epoch {} has written at offset {offset}, after that of epoch {epoch}",
                manifest.epoch
            ),
            _ => lives.push((manifest.epoch, offset, offset)),
        }
    }
    Ok(lives)
}
