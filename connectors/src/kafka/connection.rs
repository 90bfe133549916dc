//! A topic that can be reached, and the group's offsets: what has to be known before reading starts.

use std::{sync::Arc, time::Duration};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer as _},
    error::KafkaError as RdKafkaError,
};

use super::{
    client::{self, Consumer, Context},
    error::{KafkaError, describe},
    progress::Progress,
    reader::Reader,
    settings::{KafkaSettings, Start},
    topic::{Partitions, Topic},
};
use crate::event::Offsets;

/// A connection to the topic that does not read yet.
pub struct Connection {
    settings: KafkaSettings,
    topic: Topic,
    partitions: Partitions,
}

/// Commits offsets to the group. Clones share the reader's client, which lives until the last of them is gone.
#[derive(Clone)]
pub struct Committer {
    consumer: Arc<Consumer>,
    topic: String,
    group: String,
}

/// More log lines and errors than a few failed connections leave.
const EVENTS_TO_EXPLAIN: usize = 64;

// === impl Connection ===

impl Connection {
    /// Reads the secrets and looks for the topic. Where [`KafkaError::is_transient`], try again: each try takes no
    /// longer than the timeout, so that a stop need not wait for a broker.
    pub fn open(settings: &KafkaSettings, timeout: Duration) -> Result<Self, KafkaError> {
        let config = client::consumer_config(settings)?;
        let consumer: Consumer = client::create(&config, Context::default())?;
        let topic = Topic {
            consumer: Arc::new(consumer),
            name: settings.topic.clone(),
            brokers: settings.brokers.clone(),
        };
        let partitions = look_and_explain(&topic, timeout)?;
        Ok(Self {
            settings: settings.clone(),
            topic,
            partitions,
        })
    }

    /// Commits to the group of this connection.
    pub fn committer(&self) -> Committer {
        Committer {
            consumer: Arc::clone(&self.topic.consumer),
            topic: self.topic.name.clone(),
            group: self.settings.group.clone(),
        }
    }

    /// What the group has committed; partitions without a commit are absent.
    pub fn committed(&self, timeout: Duration) -> Result<Offsets, KafkaError> {
        let mut asked = TopicPartitionList::new();
        for partition in self.partitions.keys() {
            asked.add_partition(&self.topic.name, *partition);
        }
        let committed = self
            .topic
            .consumer
            .committed_offsets(asked, timeout)
            .map_err(|error| group_error(&self.settings.group, &error))?;
        // The list ends here, before its client: librdkafka hangs the other way round.
        Ok(numbers(&committed))
    }

    /// Starts to read all partitions: from the offsets given; without any, from where the settings say. A partition
    /// that only the offsets do not know is new and read from its beginning.
    pub fn read_from(self, resume: &Offsets, timeout: Duration) -> Result<Reader, KafkaError> {
        let by_time = match (resume.is_empty(), self.settings.start) {
            (true, Start::Timestamp) => self.offsets_at_start_time(timeout)?,
            _ => Offsets::new(),
        };
        let mut progress = Progress::default();
        for (partition, watermarks) in &self.partitions {
            let next = match resume.get(partition) {
                Some(next) => *next,
                None if !resume.is_empty() => watermarks.low,
                None => match self.settings.start {
                    Start::Earliest => watermarks.low,
                    Start::Latest => watermarks.high,
                    Start::Timestamp => *by_time.get(partition).unwrap_or(&watermarks.high),
                },
            };
            progress.start(*partition, next, *watermarks);
        }
        Reader::start(self.settings, self.topic, progress, &self.partitions)
    }

    fn offsets_at_start_time(&self, timeout: Duration) -> Result<Offsets, KafkaError> {
        let time_ms = self.settings.start_time_ms.unwrap_or_default();
        let asked = partition_list(
            &self.topic.name,
            self.partitions
                .keys()
                .map(|partition| (*partition, time_ms)),
        )?;
        let found = self.topic.consumer.offsets_for_times(asked, timeout);
        let found = found.map_err(|error| self.topic.unreachable(&error))?;
        Ok(numbers(&found))
    }
}

// === impl Committer ===

impl Committer {
    /// Commits without waiting. A failure is logged; the next commit covers it.
    pub fn commit(&self, offsets: &Offsets) -> Result<(), KafkaError> {
        self.commit_in(offsets, CommitMode::Async)
    }

    /// Commits and waits for the broker's answer.
    pub fn commit_and_wait(&self, offsets: &Offsets) -> Result<(), KafkaError> {
        self.commit_in(offsets, CommitMode::Sync)
    }

    fn commit_in(&self, offsets: &Offsets, mode: CommitMode) -> Result<(), KafkaError> {
        if offsets.is_empty() {
            return Ok(());
        }
        let list = partition_list(&self.topic, offsets.iter().map(|(p, o)| (*p, *o)))?;
        self.consumer
            .commit(&list, mode)
            .map_err(|error| group_error(&self.group, &error))
    }
}

/// Partitions with offsets, as librdkafka takes them.
pub(super) fn partition_list(
    topic: &str,
    offsets: impl Iterator<Item = (i32, i64)>,
) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(topic, partition, Offset::Offset(offset))
            .map_err(|error| KafkaError::Fatal(describe(&error)))?;
    }
    Ok(list)
}

fn numbers(list: &TopicPartitionList) -> Offsets {
    let elements = list.elements();
    let numbers = elements
        .iter()
        .filter_map(|element| match element.offset() {
            Offset::Offset(offset) => Some((element.partition(), offset)),
            _ => None,
        });
    numbers.collect()
}

fn group_error(group: &str, error: &RdKafkaError) -> KafkaError {
    KafkaError::Group {
        group: group.to_owned(),
        reason: describe(error),
    }
}

/// librdkafka's reasons arrive by polling; nothing is assigned yet, so no record can be among them.
fn look_and_explain(topic: &Topic, timeout: Duration) -> Result<Partitions, KafkaError> {
    topic.look(timeout).map_err(|error| match error {
        KafkaError::Unreachable { brokers, reason } => {
            for _ in 0..EVENTS_TO_EXPLAIN {
                topic.consumer.poll(Duration::ZERO);
            }
            let explained = topic.consumer.context().take_last_error();
            KafkaError::Unreachable {
                brokers,
                reason: explained.unwrap_or(reason),
            }
        }
        other => other,
    })
}
