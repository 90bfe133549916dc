//! The state topic: what is learned, kept by Kafka. One learner writes, any number of processes follow.
//!
//! The topic has one partition and is compacted. Its keys are `snapshot/N`, `checkpoint/N` and `manifest`. Every
//! publication is one transaction: the chunks first, the manifest last. A follower collects chunks and takes a manifest
//! whose digests fit them, so that it does not matter which older records compaction has removed so far.

mod follower;
mod manifest;
mod writer;

pub use follower::{Followed, StateFollower, Wanted};
pub use manifest::StateManifest;
pub use writer::{Publication, StateWriter};

use rdkafka::error::{KafkaError as RdKafkaError, RDKafkaErrorCode};

use super::error::{KafkaError, describe};

/// The topic's only partition.
pub(super) const PARTITION: i32 = 0;
const MANIFEST_KEY: &str = "manifest";

/// The two things that are spread over chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PartKind {
    Snapshot,
    Checkpoint,
}

/// Why the state topic could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A newer learner has taken over. Nothing of this process is written any more.
    #[error(
        "another learner has taken over topic {topic:?} (transactional id {id:?}): this one is fenced and has written \
         nothing since; start it again and it stands by"
    )]
    Fenced {
        /// The state topic.
        topic: String,
        /// The transactional id that both use.
        id: String,
    },
    /// The broker does not take it now. The same call may succeed later.
    #[error("cannot write the state to topic {topic:?}: {reason}")]
    Refused {
        /// The state topic.
        topic: String,
        /// Message of the broker or of librdkafka.
        reason: String,
    },
    /// The topic holds something that this version cannot read.
    #[error("topic {topic:?} {problem}")]
    Unreadable {
        /// The state topic.
        topic: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The topic cannot be reached, or the client failed.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
}

// === impl PartKind ===

impl PartKind {
    const ALL: [Self; 2] = [Self::Snapshot, Self::Checkpoint];

    fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Checkpoint => "checkpoint",
        }
    }

    fn key(self, chunk: usize) -> String {
        format!("{}/{chunk}", self.name())
    }

    /// Kind and number of a chunk's key.
    fn parse(key: &str) -> Option<(Self, usize)> {
        let (name, number) = key.split_once('/')?;
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name)?;
        Some((kind, number.parse().ok()?))
    }
}

// === impl StateError ===

impl StateError {
    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Kafka(error) => error.is_transient(),
            Self::Fenced { .. } | Self::Unreadable { .. } => false,
        }
    }

    fn of(error: &RdKafkaError, topic: &str, id: &str) -> Self {
        let is_fatal = match error {
            RdKafkaError::Transaction(error) => error.is_fatal(),
            _ => false,
        };
        match error.rdkafka_error_code() {
            Some(
                RDKafkaErrorCode::Fenced
                | RDKafkaErrorCode::ProducerFenced
                | RDKafkaErrorCode::InvalidProducerEpoch,
            ) => Self::Fenced {
                topic: topic.to_owned(),
                id: id.to_owned(),
            },
            _ if is_fatal => Self::Kafka(KafkaError::Fatal(describe(error))),
            _ => Self::Refused {
                topic: topic.to_owned(),
                reason: describe(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_chunks_are_read_as_they_are_written() {
        for kind in PartKind::ALL {
            assert_eq!(PartKind::parse(&kind.key(12)), Some((kind, 12)));
        }
        for other in ["manifest", "snapshot", "snapshot/x", "orders/1"] {
            assert_eq!(PartKind::parse(other), None);
        }
    }
}
