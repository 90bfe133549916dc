//! Labels that arrive late, from a topic of their own. They are measured with, never learned from.

use std::time::{Duration, Instant};

use super::{
    connection::{Committer, Connection},
    error::KafkaError,
    reader::{Polled, Reader},
    settings::{KafkaSettings, OnLostOffsets, Start},
};

/// Reads the labels' topic: from where the group left it, the first time from what arrives from now on.
pub struct LabelReader {
    reader: Reader,
    committer: Committer,
    next_commit: Instant,
}

/// Labels counted twice after a kill are those of so long; they only blur a measurement.
const COMMIT_EVERY: Duration = Duration::from_secs(5);

// === impl LabelReader ===

impl LabelReader {
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
        let reader = connection.read_from(&committed, timeout)?;
        // Labels that arrive while the daemon is down are read on its return only if the group knows where it was.
        committer.commit(&reader.offsets())?;
        Ok(Self {
            reader,
            committer,
            next_commit: Instant::now() + COMMIT_EVERY,
        })
    }

    /// The next label, not decoded. What was polled before counts as used, and is committed now and then.
    pub fn poll(&mut self, timeout: Duration) -> Result<Polled<'_>, KafkaError> {
        let now = Instant::now();
        if now >= self.next_commit {
            self.next_commit = now + COMMIT_EVERY;
            self.committer.commit(&self.reader.offsets())?;
        }
        self.reader.poll(timeout)
    }

    /// Commits what was polled, and ends.
    pub fn close(self) -> Result<(), KafkaError> {
        self.committer.commit_and_wait(&self.reader.offsets())
    }
}
