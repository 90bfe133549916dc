//! Reaches the topic and the group's committed offsets, before reading starts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{CommitMode, Consumer as _, ConsumerGroupMetadata},
    error::KafkaError as RdKafkaError,
};

use super::{
    client::{self, Consumer, Context},
    error::{KafkaError, describe, fatal},
    patience::ask,
    progress::Progress,
    reader::Reader,
    settings::{KafkaSettings, Start},
    topic::{Found, Topic, Watermarks, first_reason},
    writer::Writer,
};
use crate::event::Offsets;

/// A topic that was found at the broker. Nothing is read from it yet.
pub struct Connection {
    settings: KafkaSettings,
    topic: Topic,
    found: Found,
    /// Id of the topic that the resumed offsets belong to; `None` if unknown.
    expected_id: Option<String>,
}

/// Commits offsets to the group. Clones share the reader's client, which lives until the last of them is dropped.
#[derive(Clone)]
pub struct Committer {
    consumer: Arc<Consumer>,
    topic: String,
    group: String,
    /// Metadata of each commit; empty for none.
    metadata: String,
}

/// An offset that was committed to the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The offset to read next.
    pub offset: i64,
    /// What its writer says of itself: see [`Writer`].
    pub metadata: String,
}

/// The group's commits by partition.
pub type Commits = BTreeMap<i32, Commit>;

// === impl Connection ===

impl Connection {
    /// Reads the secrets and asks the broker for the topic. If the error [is transient](KafkaError::is_transient), try
    /// again: a try takes no longer than the timeout, so that a shutdown does not wait for a broker.
    pub fn open(settings: &KafkaSettings, timeout: Duration) -> Result<Self, KafkaError> {
        Self::open_with(&client::consumer_config(settings)?, settings, timeout)
    }

    fn open_with(
        config: &ClientConfig,
        settings: &KafkaSettings,
        timeout: Duration,
    ) -> Result<Self, KafkaError> {
        let consumer: Consumer = client::create(config, Context::default())?;
        let topic = Topic::new(Arc::new(consumer), &settings.topic, &settings.brokers);
        let found = topic.look(timeout);
        let found = found.map_err(|error| first_reason(&topic, error))?;
        Ok(Self {
            settings: settings.clone(),
            topic,
            found,
            expected_id: None,
        })
    }

    /// The broker's id of the topic; `None` if it does not tell.
    pub fn topic_id(&self) -> Option<&str> {
        self.found.id.as_deref()
    }

    /// From where to where the newest events are, about as many of each partition and at most so many in all.
    pub fn newest(&self, events: usize) -> (Offsets, Offsets) {
        let partitions = &self.found.partitions;
        let each = events.div_ceil(partitions.len().max(1)) as i64;
        let (mut start, mut end) = (Offsets::new(), Offsets::new());
        let mut left = events as i64;
        for (partition, watermarks) in partitions {
            let held = (watermarks.high - watermarks.low).clamp(0, each.min(left));
            left -= held;
            start.insert(*partition, watermarks.high - held);
            end.insert(*partition, watermarks.high);
        }
        (start, end)
    }

    /// The id of the topic that the offsets of [`Connection::read_from`] belong to. If the broker has another one, the
    /// topic was recreated, and the offsets mean nothing.
    pub fn expecting(mut self, id: Option<String>) -> Self {
        self.expected_id = id;
        self
    }

    /// A handle that commits to `kafka.group` as this writer; it can outlive the connection.
    pub fn committer(&self, writer: Option<&Writer>) -> Committer {
        Committer {
            consumer: Arc::clone(&self.topic.consumer),
            topic: self.topic.name.clone(),
            group: self.settings.group().to_owned(),
            metadata: writer.map(Writer::to_string).unwrap_or_default(),
        }
    }

    /// Offsets that the group has committed; partitions without a commit are absent.
    pub fn committed(&self, timeout: Duration) -> Result<Commits, KafkaError> {
        let partitions = self.found.partitions.keys().copied();
        committed(&self.topic, self.settings.group(), partitions, timeout)
    }

    /// [`Connection::open`] for [`Connection::join`].
    pub fn open_member(settings: &KafkaSettings, timeout: Duration) -> Result<Self, KafkaError> {
        Self::open_with(&client::member_config(settings)?, settings, timeout)
    }

    /// Reads as a member of `kafka.group`: the partitions that the group assigns, from its commits, else from
    /// `kafka.start`. The reader reports what comes and goes.
    pub fn join(self, writer: &Writer) -> Result<Reader, KafkaError> {
        Reader::join(self.settings, self.topic, self.found, writer.clone())
    }

    /// Starts to read all partitions from the offsets given, or from `kafka.start` if there are none at all. A
    /// partition that is missing among other offsets is new and read from its beginning.
    pub fn read_from(self, resume: &Offsets, timeout: Duration) -> Result<Reader, KafkaError> {
        let offsets = if resume.is_empty() {
            &first_offsets(&self.settings, &self.topic, &self.found, timeout)?
        } else {
            resume
        };
        let mut progress = Progress::default();
        for (partition, watermarks) in &self.found.partitions {
            let next = offsets.get(partition).unwrap_or(&watermarks.low);
            progress.start(*partition, *next, *watermarks);
        }
        // Without offsets there is nothing that another topic could have had.
        let expected = self.expected_id.filter(|_| !resume.is_empty());
        Reader::start(self.settings, self.topic, progress, self.found, expected)
    }
}

// === impl Committer ===

impl Committer {
    /// The group as a transaction commits to it.
    pub(super) fn group_metadata(&self) -> Option<ConsumerGroupMetadata> {
        self.consumer.group_metadata()
    }

    /// Topic of the offsets.
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// Commits without waiting. Nobody learns of a failure, so this is only for offsets that may be repeated.
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
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            let mut element = list.add_partition(&self.topic, *partition);
            let set = element.set_offset(Offset::Offset(*offset));
            set.map_err(fatal)?;
            if !self.metadata.is_empty() {
                element.set_metadata(&self.metadata);
            }
        }
        self.consumer
            .commit(&list, mode)
            .map_err(|error| group_error(&self.group, &error))
    }
}

/// Offsets that the group has committed of these partitions; those without a commit are absent.
pub(super) fn committed(
    topic: &Topic,
    group: &str,
    partitions: impl Iterator<Item = i32>,
    timeout: Duration,
) -> Result<Commits, KafkaError> {
    let mut asked = TopicPartitionList::new();
    for partition in partitions {
        asked.add_partition(&topic.name, partition);
    }
    let committed = ask(timeout, |left| {
        topic.consumer.committed_offsets(asked.clone(), left)
    });
    let committed = committed.map_err(|error| group_error(group, &error))?;
    // The list must be dropped before its client: librdkafka hangs the other way round.
    let mut commits = Commits::new();
    for element in committed.elements() {
        if let Offset::Offset(offset) = element.offset() {
            let metadata = element.metadata().to_owned();
            commits.insert(element.partition(), Commit { offset, metadata });
        }
    }
    Ok(commits)
}

/// Where `kafka.start` says that partitions begin.
pub(super) fn first_offsets(
    settings: &KafkaSettings,
    topic: &Topic,
    found: &Found,
    timeout: Duration,
) -> Result<Offsets, KafkaError> {
    let partitions = found.partitions.iter();
    let edge = |watermarks: &Watermarks| match settings.start {
        Start::Earliest => watermarks.low,
        Start::Latest | Start::Timestamp => watermarks.high,
    };
    let mut offsets: Offsets = partitions.map(|(n, marks)| (*n, edge(marks))).collect();
    if settings.start == Start::Timestamp {
        let time_ms = settings.start_time_ms.unwrap_or_default();
        let asked = found
            .partitions
            .keys()
            .map(|partition| (*partition, time_ms));
        let asked = partition_list(&topic.name, asked)?;
        let by_time = topic.consumer.offsets_for_times(asked, timeout);
        let by_time = by_time.map_err(|error| topic.unreachable(&error))?;
        // Partitions without an event of that time or later are absent.
        offsets.extend(numeric_offsets(&by_time));
    }
    Ok(offsets)
}

/// Converts offsets to librdkafka's type.
pub(super) fn partition_list(
    topic: &str,
    offsets: impl Iterator<Item = (i32, i64)>,
) -> Result<TopicPartitionList, KafkaError> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(topic, partition, Offset::Offset(offset))
            .map_err(fatal)?;
    }
    Ok(list)
}

/// Leaves out partitions without an offset: no commit, no event at that time, or no position yet.
pub(super) fn numeric_offsets(list: &TopicPartitionList) -> Offsets {
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
