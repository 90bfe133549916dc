//! Reads late labels from their own topic.

use std::time::{Duration, Instant};

use super::{
    connection::{Committer, Connection},
    error::KafkaError,
    reader::{Polled, Reader},
    settings::{KafkaSettings, OnLostOffsets},
};
use crate::event::Offsets;

/// Reads the labels' topic from the offsets given, else from the group's committed ones, else from `kafka.start`.
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
    pub fn open(
        kafka: &KafkaSettings,
        topic: &str,
        resume: &Offsets,
        timeout: Duration,
    ) -> Result<Self, KafkaError> {
        let mut settings = KafkaSettings {
            topic: topic.to_owned(),
            on_lost_offsets: OnLostOffsets::Earliest,
            ..kafka.clone()
        };
        // Tells when there is nothing more to read.
        let options = &mut settings.options.0;
        options.insert("enable.partition.eof".to_owned(), "true".to_owned());
        let connection = Connection::open(&settings, timeout)?;
        let committer = connection.committer(None);
        let committed = connection.committed(timeout)?;
        let committed = committed.iter();
        let committed = committed.map(|(partition, commit)| (*partition, commit.offset));
        let from = if resume.is_empty() {
            committed.collect()
        } else {
            resume.clone()
        };
        let reader = connection.read_from(&from, timeout)?;
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

    /// The offset to read next in each partition.
    pub fn offsets(&self) -> Offsets {
        self.reader.offsets()
    }

    /// Whether every label was read that was there a moment ago.
    pub fn is_at_end(&self) -> bool {
        self.reader.is_at_end()
    }

    /// Commits everything polled so far and stops reading.
    pub fn close(self) -> Result<(), KafkaError> {
        self.committer.commit_and_wait(&self.reader.offsets())
    }
}
