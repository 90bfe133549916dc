//! What can go wrong with the reader, by what a caller can do about it.

use rdkafka::error::KafkaError as RdKafkaError;

use super::progress::LostOffsets;

/// An error of reading from Kafka.
#[derive(Debug, thiserror::Error)]
pub enum KafkaError {
    /// An option is unknown, has a bad value, or contradicts another.
    #[error("kafka.options: {0}")]
    Options(String),
    /// A secret cannot be read.
    #[error("kafka.{section}.{option}: cannot read {place}: {problem}")]
    Secret {
        /// Which section asks for it.
        section: &'static str,
        /// For which option.
        option: String,
        /// Where it should be.
        place: String,
        /// Why it cannot be read.
        problem: String,
    },
    /// No broker answers. Worth another try.
    #[error("kafka.brokers {brokers:?} cannot be reached: {reason}; is a broker running there?")]
    Unreachable {
        /// The addresses tried.
        brokers: String,
        /// What librdkafka said.
        reason: String,
    },
    /// The broker answers, the topic is not there. Worth another try.
    #[error(
        "topic {topic:?} at {brokers:?} is not available: {reason}; create it, or correct its name"
    )]
    NoTopic {
        /// The topic asked for.
        topic: String,
        /// The broker asked.
        brokers: String,
        /// What the broker said.
        reason: String,
    },
    /// The offset to read next is gone, and the configuration says to stop.
    #[error(
        "{0}, and kafka.on_lost_offsets is \"stop\"; set it to \"earliest\" or \"latest\" to go on"
    )]
    Lost(LostOffsets),
    /// Offsets could not be committed, or their commits not be read.
    #[error("offsets of group {group:?}: {reason}")]
    Group {
        /// The group.
        group: String,
        /// What the broker said.
        reason: String,
    },
    /// The client cannot go on.
    #[error("kafka client failed: {0}")]
    Fatal(String),
}

impl KafkaError {
    /// Whether the same call may succeed later without a change of the configuration.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::NoTopic { .. } | Self::Group { .. }
        )
    }
}

/// What librdkafka says about itself, without the value that an option was given: it may be a secret.
pub(super) fn describe(error: &RdKafkaError) -> String {
    match error {
        RdKafkaError::ClientConfig(_, description, option, _) => {
            // librdkafka's texts quote the value for some options.
            match super::options::is_secret(option) {
                true => format!("bad value for {option}"),
                false => lower_first(description),
            }
        }
        RdKafkaError::ClientCreation(reason) => {
            let hint =
                match reason.contains("OpenSSL not available") || reason.contains("build time") {
                    true => "; build with the feature `tls`",
                    false => "",
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
