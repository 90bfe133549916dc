//! Labels that arrive late, from a topic of their own. They are measured with, never learned from.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    connection::{Committer, Connection},
    error::KafkaError,
    progress::PartitionLag,
    settings::{KafkaSettings, OnLostOffsets, Start, check_topic},
    source::{Polled, Source},
};

/// Section `labels`: where late labels come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LabelSettings {
    /// Topic of the labels, on the brokers of section `kafka`; nothing is measured without.
    pub topic: Option<String>,
    /// How they are written.
    pub format: LabelFormat,
    /// Predictions that wait for their label; the oldest goes first.
    pub cache: usize,
}

/// How a label is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabelFormat {
    /// A JSON object with `id` and `label`.
    #[default]
    Json,
    /// `ostar.v1.Label`.
    Protobuf,
}

/// Reads the labels' topic: from where the group left it, the first time from what arrives from now on.
pub struct LabelSource {
    source: Source,
    committer: Committer,
    next_commit: Instant,
}

/// Labels counted twice after a kill are those of so long; they only blur a measurement.
const COMMIT_EVERY: Duration = Duration::from_secs(5);

// === impl LabelSettings ===

impl Default for LabelSettings {
    fn default() -> Self {
        Self {
            topic: None,
            format: LabelFormat::Json,
            cache: 100_000,
        }
    }
}

impl LabelSettings {
    /// Reports everything that is wrong with the section.
    pub fn validate(&self, problems: &mut Vec<String>) {
        check_topic("labels.topic", self.topic.as_deref(), problems);
        if !(1..=100_000_000).contains(&self.cache) {
            let cache = self.cache;
            problems.push(format!("labels.cache is {cache}, expected 1 to 100000000"));
        }
    }
}

// === impl LabelSource ===

impl LabelSource {
    /// Reaches the topic; where [`KafkaError::is_transient`], try again.
    pub fn open(kafka: &KafkaSettings, topic: &str, timeout: Duration) -> Result<Self, KafkaError> {
        let settings = KafkaSettings {
            topic: topic.to_owned(),
            start: Start::Latest,
            start_time_ms: None,
            on_lost_offsets: OnLostOffsets::Earliest,
            ..kafka.clone()
        };
        let connection = Connection::open(&settings, timeout)?;
        let committer = connection.committer();
        let committed = connection.committed(timeout)?;
        let source = connection.read_from(&committed, timeout)?;
        // Labels that arrive while the daemon is down are read on its return only if the group knows where it was.
        committer.commit(&source.offsets())?;
        Ok(Self {
            source,
            committer,
            next_commit: Instant::now() + COMMIT_EVERY,
        })
    }

    /// The next label, not decoded. What was polled before counts as used, and is committed now and then.
    pub fn poll(&mut self, timeout: Duration) -> Result<Polled<'_>, KafkaError> {
        let now = Instant::now();
        if now >= self.next_commit {
            self.next_commit = now + COMMIT_EVERY;
            self.committer.commit(&self.source.offsets())?;
        }
        self.source.poll(timeout)
    }

    /// How far each partition is behind.
    pub fn lags(&self) -> Vec<PartitionLag> {
        self.source.lags()
    }

    /// Commits what was polled, and ends.
    pub fn close(self) -> Result<(), KafkaError> {
        self.committer.commit_and_wait(&self.source.offsets())
    }
}
