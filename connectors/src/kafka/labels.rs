//! Reads late labels from their own topic.

use std::time::{Duration, Instant};

use super::{
    connection::{Committer, Connection},
    error::KafkaError,
    reader::{Polled, Reader},
    settings::{KafkaSettings, OnLostOffsets, Start},
};

/// Reads the labels' topic from the group's committed offsets, or from its end if the group has none.
pub struct LabelReader {
    reader: Reader,
    committer: Committer,
    next_commit: Instant,
}

/// After a kill, the labels of the last interval are read twice. They only blur a measurement.
const COMMIT_EVERY: Duration = Duration::from_secs(5);

// === impl LabelReader ===

impl LabelReader {
    /// Connects and starts to read. If the error [is transient](KafkaError::is_transient), try again.
    pub fn open(kafka: &KafkaSettings, topic: &str, timeout: Duration) -> Result<Self, KafkaError> {
        let settings = KafkaSettings {
            topic: topic.to_owned(),
            start: Start::Latest,
            start_time_ms: None,
            on_lost_offsets: OnLostOffsets::Earliest,
            ..kafka.clone()
        };
        let connection = Connection::open(&settings, timeout)?;
        let committer = connection.committer(None);
        let committed = connection.committed(timeout)?;
        let committed = committed.iter();
        let committed = committed.map(|(partition, commit)| (*partition, commit.offset));
        let reader = connection.read_from(&committed.collect(), timeout)?;
        // Commit the starting point: without a commit, a restart would skip labels that arrived in between.
        committer.commit(&reader.offsets())?;
        Ok(Self {
            reader,
            committer,
            next_commit: Instant::now() + COMMIT_EVERY,
        })
    }

    /// The next record. Records polled before count as processed and are committed every few seconds.
    pub fn poll(&mut self, timeout: Duration) -> Result<Polled<'_>, KafkaError> {
        let now = Instant::now();
        if now >= self.next_commit {
            self.next_commit = now + COMMIT_EVERY;
            self.committer.commit(&self.reader.offsets())?;
        }
        self.reader.poll(timeout)
    }

    /// Commits everything polled so far and stops reading.
    pub fn close(self) -> Result<(), KafkaError> {
        self.committer.commit_and_wait(&self.reader.offsets())
    }
}
