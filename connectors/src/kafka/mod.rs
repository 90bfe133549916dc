//! Kafka: reads events and late labels, sends predictions and dead letters.
//!
//! [`Connection`] finds the topic and fetches the group's committed offsets. [`Reader`] reads all partitions from given
//! offsets; events that it could not read are reported by a [`Notice`] or an error. [`Outputs`] delivers each message, or parks it.

mod client;
mod connection;
mod delivery;
mod error;
mod labels;
mod leadership;
mod limits;
mod line_file;
mod lines;
mod membership;
mod message;
#[cfg(test)]
mod mock_tests;
mod options;
mod outbox;
mod outputs;
mod patience;
mod progress;
mod reader;
mod record;
mod sender;
mod settings;
mod size_limit;
pub mod state;
mod survey;
mod topic;
mod topic_description;
mod topic_plan;
mod writer;

pub use connection::{Commit, Commits, Committer, Connection};
pub use error::KafkaError;
pub use labels::LabelReader;
pub use leadership::{Leadership, LeadershipKeeper};
pub use limits::{LimitExceeded, RejectLimits};
pub use message::Output;
pub use options::{Options, is_secret};
pub use outputs::{OutputCounts, OutputError, Outputs};
pub use progress::{LossCause, LostOffsets, PartitionLag};
pub use reader::{Notice, Polled, Reader};
pub use record::{OwnedRecord, Record};
pub use sender::Sender;
pub use settings::{
    DeadLetterSettings, KafkaSettings, OnLostOffsets, OutputSettings, ParkedSettings,
    PredictionFormat, PredictionSettings, Start,
};
pub use survey::{Survey, TopicFacts};
pub use topic_description::Permissions;
pub use topic_plan::{TopicOutcome, TopicPlan};
pub use writer::Writer;
