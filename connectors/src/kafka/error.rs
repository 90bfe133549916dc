//! Errors of Kafka, one variant per thing that a caller can do about it.

use rdkafka::error::KafkaError as RdKafkaError;

use super::progress::LostOffsets;
use crate::settings::without_credentials;

/// An error of the consumer or of a client's options.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// An option is unknown, has a bad value, or contradicts another.
    #[error("kafka.options: {0}")]
    Options(String),
    /// A secret cannot be read.
    #[error("kafka.{section}.{option}: cannot read {place}: {problem}")]
    Secret {
        /// `options_from_files` or `options_from_environment`.
        section: &'static str,
        /// Name of the option that the secret is for.
        option: String,
        /// File or environment variable that was to hold it.
        place: String,
        /// Message of the operating system.
        problem: String,
    },
    /// No broker answers. Transient.
    #[error(
        "kafka.brokers {:?} cannot be reached: {reason}; is a broker running there?",
        without_credentials(brokers)
    )]
    Unreachable {
        /// Value of `kafka.brokers`.
        brokers: String,
        /// Message of librdkafka.
        reason: String,
    },
    /// The broker answers, but does not have the topic. Transient.
    #[error(
        "topic {topic:?} at {:?} is not available: {reason}; create it, or correct its name",
        without_credentials(brokers)
    )]
    NoTopic {
        /// Name of the missing topic.
        topic: String,
        /// Value of `kafka.brokers`.
        brokers: String,
        /// Message of the broker.
        reason: String,
    },
    /// The next offset is gone, and `kafka.on_lost_offsets` is "stop".
    #[error(
        "{0}, and kafka.on_lost_offsets is \"stop\"; set it to \"earliest\" or \"latest\" to continue"
    )]
    Lost(LostOffsets),
    /// Offsets could not be committed, or committed offsets not be read. Transient.
    #[error("cannot read or commit offsets of kafka.group {group:?}: {reason}")]
    Group {
        /// Value of `kafka.group`.
        group: String,
        /// Message of the broker.
        reason: String,
    },
    /// Somebody else commits to the group.
    #[error(
        "kafka.group {group:?} has commits of topic {topic:?} by another writer: {theirs:?}, this is {ours:?}; set \
         kafka.group to a name of its own for one of the two, or delete the group's offsets if the other is gone"
    )]
    ForeignCommit {
        /// Value of `kafka.group`.
        group: String,
        /// Topic of the commits.
        topic: String,
        /// What this daemon writes into its commits.
        ours: String,
        /// What was found.
        theirs: String,
    },
    /// librdkafka cannot recover; the client has to be made again.
    #[error("kafka client failed: {0}")]
    Fatal(String),
}

impl KafkaError {
    /// Whether the same call may succeed later with the same configuration.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::NoTopic { .. } | Self::Group { .. }
        )
    }
}

/// A failure that only a new client can mend.
pub(super) fn fatal(error: RdKafkaError) -> KafkaError {
    KafkaError::Fatal(describe(&error))
}

/// librdkafka's message, without the values of secret options.
pub(super) fn describe(error: &RdKafkaError) -> String {
    match error {
        RdKafkaError::ClientConfig(_, description, option, _) => {
            // For some options librdkafka's message quotes the value.
            if super::options::is_secret(option) {
                format!("bad value for {option}")
            } else {
                lower_first(description)
            }
        }
        RdKafkaError::ClientCreation(reason) => {
            let needs_tls =
                reason.contains("OpenSSL not available") || reason.contains("build time");
            let hint = if needs_tls {
                "; build with the feature `tls`"
            } else {
                ""
            };
            format!("{}{hint}", lower_first(reason))
        }
        _ => match error.rdkafka_error_code() {
            Some(code) => lower_first(&code.to_string()),
            None => lower_first(&error.to_string()),
        },
    }
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}
