//! Sections of the configuration about Kafka: `kafka`, `predictions`, `dead_letters`.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    client,
    options::{Options, reason_reserved},
};
use crate::settings::{KeyPath, Period, Problem, check_periods, check_topic};

/// Section `kafka`: where events come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaSettings {
    /// Bootstrap addresses: "host:port,host:port".
    pub brokers: String,
    /// Topic that events are read from.
    pub topic: String,
    /// Consumer group that offsets are committed to, for tools that show lag. Not set: `ostard-` and the names of bundle
    /// and topic. All partitions are read, whatever other members it has. Two daemons may not share it.
    pub group: Option<String>,
    /// Where to start without a checkpoint. With `latest` and `timestamp`, offsets that the group has committed come
    /// first. With `earliest`, events before them are learned but not emitted again.
    pub start: Start,
    /// For `start = "timestamp"`: the time to start at, in milliseconds since 1970.
    pub start_time_ms: Option<i64>,
    /// Where to continue if the next offset is gone (retention, a recreated topic).
    pub on_lost_offsets: OnLostOffsets,
    /// Interval of looking for new partitions and measuring lag.
    pub metadata_refresh: Period,
    /// After so long without a broker the daemon has the condition `kafka`. It stays ready: predictions are served.
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
    /// Most bytes kept of a rejected event's payload, and of its key.
    // Room for headers below the 1 MB that a broker takes by default.
    #[schemars(range(max = 900_000))]
    pub max_bytes: usize,
    /// Reading pauses when a larger share of the last `ratio_over` events was rejected; 1 disables this.
    pub max_ratio: f64,
    /// Events that `max_ratio` is taken over.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub ratio_over: usize,
    /// Reading pauses after so many rejected events in a row; 0 disables this.
    pub max_consecutive: usize,
}

/// Section `parked`: where outputs go that are refused for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParkedSettings {
    /// Topic of the parked outputs.
    pub topic: Option<String>,
    /// File that parked outputs are appended to, as JSON lines, instead of a topic. Without either it is `parked.jsonl`
    /// in `checkpoints.folder`.
    pub file: Option<PathBuf>,
    /// The file does not grow beyond this. When it is full, reading stops until it is moved away.
    // Smaller than a large message, the file could never take it.
    #[schemars(range(min = 1_000_000))]
    pub max_bytes: u64,
}

/// Section `outputs`: how predictions and dead letters are delivered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSettings {
    /// How long an output is tried while its topic is gone or no broker answers, before it is parked. Not set: for ever.
    /// Reading waits meanwhile.
    pub patience: Option<Period>,
}

// === impl KafkaSettings ===

impl Default for KafkaSettings {
    fn default() -> Self {
        Self {
            brokers: "127.0.0.1:9092".to_owned(),
            topic: String::new(),
            group: None,
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
    /// The group that offsets are committed to. `ostard` if none is set, for readers that commit nothing.
    pub fn group(&self) -> &str {
        self.group.as_deref().unwrap_or("ostard")
    }

    /// The group for a bundle, if none is set.
    pub fn default_group(&self, bundle: &str) -> String {
        format!("ostard-{bundle}-{}", self.topic)
    }

    /// Reports everything that is wrong with the section. Reads no secrets and talks to no broker.
    pub fn validate(&self, problems: &mut Vec<Problem>) {
        for (key, value, example) in [
            ("brokers", &self.brokers, "127.0.0.1:9092"),
            ("topic", &self.topic, "events"),
            ("group", &self.group().to_owned(), "ostard-spam-events"),
        ] {
            if value.trim().is_empty() {
                problems.push(Problem::value(
                    format!("kafka.{key}"),
                    value.trim(),
                    format!("expected a value like {example:?}"),
                ));
            }
        }
        match (self.start, self.start_time_ms) {
            (Start::Timestamp, None) => problems.push(Problem::value(
                "kafka.start",
                self.start,
                "expected kafka.start_time_ms to be set",
            )),
            (Start::Earliest | Start::Latest, Some(time)) => problems.push(Problem::value(
                "kafka.start_time_ms",
                time,
                "expected kafka.start to be \"timestamp\" then",
            )),
            _ => {}
        }
        let periods = [
            ("metadata_refresh", self.metadata_refresh),
            ("patience", self.patience),
        ];
        check_periods("kafka", periods, problems);
        self.validate_options(problems);
    }

    fn validate_options(&self, problems: &mut Vec<Problem>) {
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
                    let path = KeyPath::from("kafka").below(section).below(name);
                    problems.push(Problem::key(path, format!("may not be set: {reason}")));
                }
            }
        }
        for (name, value) in &self.options.0 {
            if let Err(problem) = client::check_option(name, value) {
                let path = KeyPath::from("kafka.options").below(name);
                let hint = format!("is refused by librdkafka: {problem}");
                problems.push(Problem::key(path, hint));
            }
        }
    }
}

// === impl PredictionSettings ===

impl PredictionSettings {
    /// Reports everything that is wrong with the section.
    pub fn validate(&self, problems: &mut Vec<Problem>) {
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
    pub fn validate(&self, problems: &mut Vec<Problem>) {
        check_topic("dead_letters.topic", self.topic.as_deref(), problems);
        if let (Some(_), Some(file)) = (&self.topic, &self.file) {
            let hint = "expected only one of dead_letters.topic and dead_letters.file";
            problems.push(Problem::value("dead_letters.file", file, hint));
        }
        if !(0.0..=1.0).contains(&self.max_ratio) {
            let path = "dead_letters.max_ratio";
            problems.push(Problem::value(path, self.max_ratio, "expected 0 to 1"));
        }
    }
}

// === impl ParkedSettings ===

impl Default for ParkedSettings {
    fn default() -> Self {
        Self {
            topic: None,
            file: None,
            max_bytes: 100_000_000,
        }
    }
}

impl ParkedSettings {
    /// Reports everything that is wrong with the section.
    pub fn validate(&self, problems: &mut Vec<Problem>) {
        check_topic("parked.topic", self.topic.as_deref(), problems);
        if let (Some(_), Some(file)) = (&self.topic, &self.file) {
            let hint = "expected only one of parked.topic and parked.file";
            problems.push(Problem::value("parked.file", file, hint));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(section: &str) -> Vec<String> {
        let settings: KafkaSettings = serde_json::from_str(section).unwrap();
        let mut problems = Vec::new();
        settings.validate(&mut problems);
        problems.iter().map(Problem::to_string).collect()
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
                "kafka.patience is \"0s\", expected at least 1ms",
                "kafka.options.enable.auto.commit may not be set: offsets are committed after outputs are flushed, \
                 and this would change that",
                "kafka.options_from_files.group.id may not be set: set kafka.group instead",
                "kafka.options.fetch.min.bites is refused by librdkafka: no such configuration property: \"fetch.min.bites\"",
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
            ..DeadLetterSettings::default()
        };
        let mut problems = Vec::new();
        settings.validate(&mut problems);
        assert_eq!(problems.len(), 2);
        assert_eq!(
            problems[1].to_string(),
            "dead_letters.max_ratio is 1.5, expected 0 to 1"
        );
    }
}
