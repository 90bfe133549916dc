//! Sections of the configuration about Kafka: `kafka`, `predictions`, `dead_letters`.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    client,
    options::{Options, reason_reserved},
};
use crate::settings::Period;

/// Section `kafka`: where events come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaSettings {
    /// Bootstrap addresses: "host:port,host:port".
    pub brokers: String,
    /// Topic that events are read from.
    pub topic: String,
    /// Consumer group that offsets are committed to. All partitions are read, whatever other members it has.
    pub group: String,
    /// Where to start without a checkpoint and without committed offsets.
    pub start: Start,
    /// For `start = "timestamp"`: the time to start at, in milliseconds since 1970.
    pub start_time_ms: Option<i64>,
    /// Where to continue if the next offset is gone (retention, a recreated topic).
    pub on_lost_offsets: OnLostOffsets,
    /// Interval of looking for new partitions and measuring lag.
    pub metadata_refresh: Period,
    /// The daemon becomes unready after so long without a broker.
    pub patience: Period,
    /// Options of librdkafka by name. Those that ostard relies on are refused.
    pub options: Options,
    /// Options whose values are read from files: option to path.
    pub options_from_files: BTreeMap<String, PathBuf>,
    /// Options whose values are read from environment variables: option to variable.
    pub options_from_environment: BTreeMap<String, String>,
}

/// Where to start reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// At the oldest event that the broker still has.
    Earliest,
    /// At the first event that arrives after the start.
    Latest,
    /// At the first event with a time stamp of `start_time_ms` or later.
    Timestamp,
}

/// What to do when the offset to read next is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLostOffsets {
    /// Continue at the oldest event that the broker still has.
    Earliest,
    /// Continue at the first event that arrives from now on.
    Latest,
    /// Stop the daemon with an error.
    Stop,
}

/// Section `predictions`: where predictions go.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PredictionSettings {
    /// Topic of the predictions; without one, none are sent.
    pub topic: Option<String>,
    /// Format of the predictions' payloads.
    pub format: PredictionFormat,
}

/// How a prediction is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PredictionFormat {
    /// One JSON object per record.
    #[default]
    Json,
    /// The message `ostar.v1.Prediction`.
    Protobuf,
}

/// Section `dead_letters`: where rejected events go, and how many are too many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DeadLetterSettings {
    /// Topic of the rejected events.
    pub topic: Option<String>,
    /// File that rejected events are appended to, as JSON lines, instead of a topic.
    pub file: Option<PathBuf>,
    /// Most bytes kept of a rejected event's payload.
    pub max_bytes: usize,
    /// Reading pauses when a larger share of the last `ratio_over` events was rejected; 1 disables this.
    pub max_ratio: f64,
    /// Events that `max_ratio` is taken over.
    pub ratio_over: usize,
    /// Reading pauses after so many rejected events in a row; 0 disables this.
    pub max_consecutive: usize,
}

// === impl KafkaSettings ===

impl Default for KafkaSettings {
    fn default() -> Self {
        Self {
            brokers: "127.0.0.1:9092".to_owned(),
            topic: String::new(),
            group: "ostard".to_owned(),
            start: Start::Earliest,
            start_time_ms: None,
            on_lost_offsets: OnLostOffsets::Earliest,
            metadata_refresh: Period::from_secs(10),
            patience: Period::from_secs(30),
            options: Options::default(),
            options_from_files: BTreeMap::new(),
            options_from_environment: BTreeMap::new(),
        }
    }
}

impl KafkaSettings {
    /// Reports everything that is wrong with the section. Reads no secrets and talks to no broker.
    pub fn validate(&self, problems: &mut Vec<String>) {
        for (key, value, example) in [
            ("brokers", &self.brokers, "127.0.0.1:9092"),
            ("topic", &self.topic, "events"),
            ("group", &self.group, "ostard"),
        ] {
            if value.trim().is_empty() {
                problems.push(format!(
                    "kafka.{key} is empty, expected a value like {example:?}"
                ));
            }
        }
        match (self.start, self.start_time_ms) {
            (Start::Timestamp, None) => problems.push(
                "kafka.start is \"timestamp\", expected kafka.start_time_ms to be set".to_owned(),
            ),
            (Start::Earliest | Start::Latest, Some(time)) => problems.push(format!(
                "kafka.start_time_ms is {time}, expected kafka.start to be \"timestamp\" then"
            )),
            _ => {}
        }
        for (key, period) in [
            ("metadata_refresh", self.metadata_refresh),
            ("patience", self.patience),
        ] {
            if period.get().is_zero() {
                problems.push(format!("kafka.{key} is 0s, expected at least 1ms"));
            }
        }
        self.validate_options(problems);
    }

    fn validate_options(&self, problems: &mut Vec<String>) {
        let sections = [
            ("options", self.options.0.keys().collect::<Vec<_>>()),
            (
                "options_from_files",
                self.options_from_files.keys().collect(),
            ),
            (
                "options_from_environment",
                self.options_from_environment.keys().collect(),
            ),
        ];
        for (section, names) in sections {
            for name in names {
                if let Some(reason) = reason_reserved(name) {
                    problems.push(format!("kafka.{section}.{name} may not be set: {reason}"));
                }
            }
        }
        for (name, value) in &self.options.0 {
            if let Err(problem) = client::check_option(name, value) {
                problems.push(format!("kafka.options.{name}: {problem}"));
            }
        }
    }
}

// === impl PredictionSettings ===

impl PredictionSettings {
    /// Reports everything that is wrong with the section.
    pub fn validate(&self, problems: &mut Vec<String>) {
        check_topic("predictions.topic", self.topic.as_deref(), problems);
    }
}

// === impl DeadLetterSettings ===

impl Default for DeadLetterSettings {
    fn default() -> Self {
        Self {
            topic: None,
            file: None,
            max_bytes: 65_536,
            max_ratio: 0.1,
            ratio_over: 10_000,
            max_consecutive: 100,
        }
    }
}

impl DeadLetterSettings {
    /// Reports everything that is wrong with the section.
    pub fn validate(&self, problems: &mut Vec<String>) {
        check_topic("dead_letters.topic", self.topic.as_deref(), problems);
        if let (Some(topic), Some(file)) = (&self.topic, &self.file) {
            problems.push(format!(
                "dead_letters.topic is {topic:?} and dead_letters.file is {file:?}, expected at most one of them"
            ));
        }
        if !(0.0..=1.0).contains(&self.max_ratio) {
            let ratio = self.max_ratio;
            problems.push(format!(
                "dead_letters.max_ratio is {ratio}, expected 0 to 1"
            ));
        }
        if !(1..=1_000_000).contains(&self.ratio_over) {
            let events = self.ratio_over;
            problems.push(format!(
                "dead_letters.ratio_over is {events}, expected 1 to 1000000"
            ));
        }
        // Room for headers below the 1 MB that a broker takes by default.
        if self.max_bytes > 900_000 {
            let bytes = self.max_bytes;
            problems.push(format!(
                "dead_letters.max_bytes is {bytes}, expected at most 900000"
            ));
        }
    }
}

pub(crate) fn check_topic(key: &str, topic: Option<&str>, problems: &mut Vec<String>) {
    if topic.is_some_and(|topic| topic.trim().is_empty()) {
        problems.push(format!("{key} is empty, expected a topic's name or no key"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(section: &str) -> Vec<String> {
        let settings: KafkaSettings = serde_json::from_str(section).unwrap();
        let mut problems = Vec::new();
        settings.validate(&mut problems);
        problems
    }

    #[test]
    fn all_problems_are_reported_at_once_with_key_value_and_fix() {
        let problems = problems_of(
            r#"{"brokers": "", "start": "timestamp", "patience": "0s",
                "options": {"enable.auto.commit": "true", "fetch.min.bites": "1", "sasl.password": "hunter2"},
                "options_from_files": {"group.id": "/run/group"}}"#,
        );
        assert_eq!(
            problems,
            [
                "kafka.brokers is empty, expected a value like \"127.0.0.1:9092\"",
                "kafka.topic is empty, expected a value like \"events\"",
                "kafka.start is \"timestamp\", expected kafka.start_time_ms to be set",
                "kafka.patience is 0s, expected at least 1ms",
                "kafka.options.enable.auto.commit may not be set: offsets are committed after outputs are flushed, \
                 and this would change that",
                "kafka.options_from_files.group.id may not be set: set kafka.group instead",
                "kafka.options.fetch.min.bites: no such configuration property: \"fetch.min.bites\"",
            ]
        );
    }

    #[test]
    fn a_topic_is_all_that_has_to_be_set() {
        assert_eq!(problems_of(r#"{"topic": "events"}"#), [""; 0]);
    }

    #[test]
    fn limits_of_dead_letters_are_checked() {
        let settings = DeadLetterSettings {
            topic: Some("bad".to_owned()),
            file: Some("bad.jsonl".into()),
            max_ratio: 1.5,
            ratio_over: 0,
            ..DeadLetterSettings::default()
        };
        let mut problems = Vec::new();
        settings.validate(&mut problems);
        assert_eq!(problems.len(), 3);
        assert_eq!(
            problems[1],
            "dead_letters.max_ratio is 1.5, expected 0 to 1"
        );
    }
}
