//! Sections whose owners are still writing them; replaced by theirs, field by field.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use ostar_connectors::settings::Period;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where events come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct KafkaSettings {
    /// Brokers to start from, host:port, separated by commas.
    pub(crate) brokers: String,
    /// Topic of the events.
    pub(crate) topic: String,
    /// Group that offsets are committed to, for lag tools.
    pub(crate) group: String,
    /// Where to start without a checkpoint.
    pub(crate) start: Start,
    /// Time to start from, in milliseconds since 1970, when `start` is "timestamp".
    pub(crate) start_time_ms: Option<i64>,
    /// What to do when retention or a recreated topic took the offsets away.
    pub(crate) on_lost_offsets: OnLostOffsets,
    /// How often new partitions are looked for.
    pub(crate) metadata_refresh: Period,
    /// Unready after so long without a broker.
    pub(crate) patience: Period,
    /// Any librdkafka option.
    pub(crate) options: BTreeMap<String, String>,
    /// librdkafka options whose value is the content of a file.
    pub(crate) options_from_files: BTreeMap<String, PathBuf>,
    /// librdkafka options whose value is that of an environment variable.
    pub(crate) options_from_environment: BTreeMap<String, String>,
}

/// Where reading starts without a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Start {
    #[default]
    Earliest,
    Latest,
    Timestamp,
}

/// What to do when offsets are lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnLostOffsets {
    #[default]
    Earliest,
    Latest,
    Stop,
}

/// How events are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EventFormat {
    #[default]
    Json,
    Protobuf,
    Raw,
}

/// How predictions and labels are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MessageFormat {
    #[default]
    Json,
    Protobuf,
}

/// How events are decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EventSettings {
    /// How they are written.
    pub(crate) format: EventFormat,
    /// Longer ones are rejected.
    pub(crate) max_bytes: usize,
    /// JSON that is nested deeper is rejected.
    pub(crate) max_depth: usize,
    /// Whether a JSON event is its fields, without a `fields` object around them.
    pub(crate) flat: bool,
}

/// Where predictions go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PredictionSettings {
    /// Topic of predictions; none are written without one.
    pub(crate) topic: Option<String>,
    /// How they are written.
    pub(crate) format: MessageFormat,
}

/// Where events go that cannot be decoded, and how many are too many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DeadLetterSettings {
    /// Topic for them.
    pub(crate) topic: Option<String>,
    /// File for them.
    pub(crate) file: Option<PathBuf>,
    /// Longer ones are cut.
    pub(crate) max_bytes: usize,
    /// Consumption stops at a larger share of them.
    pub(crate) max_ratio: f64,
    /// Events that the share is measured over.
    pub(crate) ratio_over: usize,
    /// Consumption stops after so many in a row.
    pub(crate) max_consecutive: usize,
}

/// Labels that arrive later, used only to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LabelSettings {
    /// Their topic; nothing is measured without one.
    pub(crate) topic: Option<String>,
    /// How they are written.
    pub(crate) format: MessageFormat,
    /// Predictions that wait for their label.
    pub(crate) cache: usize,
    /// Joined labels that measures are over.
    pub(crate) window: usize,
}

/// The gRPC listeners and their limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GrpcSettings {
    /// Address of predictions and state.
    pub(crate) listen: SocketAddr,
    /// Address of orders; off without one.
    pub(crate) control_listen: Option<SocketAddr>,
    /// Rows of a request at most.
    pub(crate) max_rows: usize,
    /// Rows that wait at most; more are refused.
    pub(crate) queue_rows: usize,
    /// Requests that waited longer are refused.
    pub(crate) max_wait: Period,
    /// Rows that are scored at once at most.
    pub(crate) max_batch_rows: usize,
    /// Threads that score.
    pub(crate) threads: usize,
    /// Bytes of a request at most.
    pub(crate) max_message_bytes: usize,
}

/// The HTTP listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HttpSettings {
    /// Address of metrics and health.
    pub(crate) listen: SocketAddr,
    /// Whether metrics are shown without the token.
    pub(crate) metrics_without_token: bool,
}

/// TLS of the listeners.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsSettings {
    /// PEM file of the certificate chain.
    pub(crate) certificate: Option<PathBuf>,
    /// PEM file of its key.
    pub(crate) key: Option<PathBuf>,
    /// PEM file of the authority that clients' certificates must come from.
    pub(crate) client_ca: Option<PathBuf>,
}

/// Who may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuthSettings {
    /// File of the bearer token that callers must send.
    pub(crate) token_file: Option<PathBuf>,
}

impl Default for KafkaSettings {
    fn default() -> Self {
        Self {
            brokers: String::new(),
            topic: String::new(),
            group: "ostard".into(),
            start: Start::Earliest,
            start_time_ms: None,
            on_lost_offsets: OnLostOffsets::Earliest,
            metadata_refresh: Period::from_secs(10),
            patience: Period::from_secs(30),
            options: BTreeMap::new(),
            options_from_files: BTreeMap::new(),
            options_from_environment: BTreeMap::new(),
        }
    }
}

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            format: EventFormat::Json,
            max_bytes: 1_048_576,
            max_depth: 16,
            flat: false,
        }
    }
}

impl Default for DeadLetterSettings {
    fn default() -> Self {
        Self {
            topic: None,
            file: None,
            max_bytes: 65_536,
            max_ratio: 0.5,
            ratio_over: 1_000,
            max_consecutive: 1_000,
        }
    }
}

impl Default for LabelSettings {
    fn default() -> Self {
        Self {
            topic: None,
            format: MessageFormat::Json,
            cache: 100_000,
            window: 10_000,
        }
    }
}

impl Default for GrpcSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 50_051)),
            control_listen: None,
            max_rows: 1_024,
            queue_rows: 8_192,
            max_wait: Period::from_millis(50),
            max_batch_rows: 1_024,
            threads: 1,
            max_message_bytes: 4_194_304,
        }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8_080)),
            metrics_without_token: false,
        }
    }
}

impl KafkaSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<String>) {
        if self.brokers.is_empty() {
            problems
                .push("kafka.brokers is not set, expected host:port of one or more brokers".into());
        }
        if self.topic.is_empty() {
            problems.push("kafka.topic is not set, expected the topic of the events".into());
        }
        if self.start == Start::Timestamp && self.start_time_ms.is_none() {
            problems.push(
                "kafka.start is \"timestamp\", expected kafka.start_time_ms to say which".into(),
            );
        }
    }
}

impl DeadLetterSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<String>) {
        if !(0.0..=1.0).contains(&self.max_ratio) {
            let ratio = self.max_ratio;
            problems.push(format!(
                "dead_letters.max_ratio is {ratio}, expected 0 to 1"
            ));
        }
        if let (Some(_), Some(file)) = (&self.topic, &self.file) {
            problems.push(format!(
                "dead_letters.file is {file:?}, expected either it or dead_letters.topic, not both"
            ));
        }
    }
}
