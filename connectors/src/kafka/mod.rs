//! Kafka: the stream of events in, predictions and dead letters out, late labels in.
//!
//! [`Connection`] reaches the topic and tells what the group has committed; [`Reader`] then reads all partitions from
//! the offsets it is given. [`Outputs`] delivers at least once. Nothing is lost silently: what could not be read is a
//! [`Notice`] or an error.

mod client;
mod connection;
mod delivery;
mod error;
mod labels;
mod letter_file;
mod limits;
#[cfg(test)]
mod mock_tests;
mod options;
mod outputs;
mod prediction_json;
mod progress;
mod reader;
mod record;
mod sender;
mod settings;
mod topic;

pub use connection::{Committer, Connection};
pub use error::KafkaError;
pub use labels::LabelReader;
pub use limits::{LimitExceeded, RejectLimits};
pub use options::{Options, is_secret};
pub use outputs::{DeadLetter, OutputError, Outputs};
pub use progress::{LostOffsets, PartitionLag};
pub use reader::{Notice, Polled, Reader};
pub use record::Record;
pub use sender::Sender;
pub(crate) use settings::check_topic;
pub use settings::{
    DeadLetterSettings, KafkaSettings, OnLostOffsets, PredictionFormat, PredictionSettings, Start,
};
