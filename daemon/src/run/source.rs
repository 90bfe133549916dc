//! Opens what the process reads: events, its group's share of them, or samples.

use std::time::Duration;

use ostar_connectors::{
    event::Offsets,
    kafka::{Connection, KafkaError, KafkaSettings, Start},
};

use super::offsets::Known;
use crate::{
    config::{Config, Role},
    pipeline::{Emitted, EventSource},
};

/// How long one attempt to reach the broker takes.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Opens what this role reads where the position ends.
pub(super) fn open(config: &Config, known: &Known) -> Result<EventSource, KafkaError> {
    match config.role {
        Role::All => open_events(&config.kafka, known),
        Role::Scorer => open_share(&config.kafka, known),
        Role::Learner => open_samples(config, known),
    }
}

/// All partitions, from the first offset that is not both learned and emitted.
fn open_events(settings: &KafkaSettings, known: &Known) -> Result<EventSource, KafkaError> {
    let connection = Connection::open(settings, ATTEMPT)?;
    let committer = connection.committer(Some(&known.writer));
    let own = known.own(&connection.committed(ATTEMPT)?, settings)?;
    let mut emitted = known.emitted(&own);
    let connection = connection.expecting(known.topic_id());
    let reader = connection.read_from(&known.first(&emitted, settings.start), ATTEMPT)?;
    for (partition, began) in reader.offsets() {
        emitted.entry(partition).or_insert(began);
    }
    // Lag tools see every partition from the first moment, and the broker keeps what it had long enough.
    committer.commit_and_wait(&emitted)?;
    Ok(EventSource {
        reader,
        committer,
        emitted: Emitted::new(emitted),
    })
}

/// The partitions that the group assigns, from its commits.
fn open_share(settings: &KafkaSettings, known: &Known) -> Result<EventSource, KafkaError> {
    let connection = Connection::open_member(settings, ATTEMPT)?;
    let committer = connection.committer(Some(&known.writer));
    Ok(EventSource {
        reader: connection.join(&known.writer)?,
        committer,
        emitted: Emitted::new(Offsets::new()),
    })
}

/// Samples behind what was learned, with a group of its own that tools can watch. Without a checkpoint, from their
/// beginning.
fn open_samples(config: &Config, known: &Known) -> Result<EventSource, KafkaError> {
    let settings = KafkaSettings {
        topic: config.learned_topic().to_owned(),
        group: Some(format!("{}-samples", config.kafka.group())),
        start: Start::Earliest,
        start_time_ms: None,
        ..config.kafka.clone()
    };
    let connection = Connection::open(&settings, ATTEMPT)?;
    let committer = connection.committer(None);
    let connection = connection.expecting(known.topic_id());
    Ok(EventSource {
        reader: connection.read_from(&known.learned(), ATTEMPT)?,
        committer,
        emitted: Emitted::new(Offsets::new()),
    })
}
