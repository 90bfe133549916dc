//! Section `labels`: how late labels are read and joined.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{Period, Problem, check_field_names, check_topic};

/// Section `labels` of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabelSettings {
    /// Topic of the labels; without one, none are read.
    pub topic: Option<String>,
    /// Format of the labels' payloads.
    pub format: LabelFormat,
    /// JSON: key of the event's id, a text or a whole number.
    pub id_field: String,
    /// JSON: key of the label, a class's name or number.
    pub label_field: String,
    /// Most predictions that wait for their labels, and most labels that wait for their predictions.
    pub cache: usize,
    /// Most bytes of the predictions that wait for their labels: with many classes fewer than `cache` wait.
    pub cache_bytes: usize,
    /// Joined labels that the sliding measures are taken over.
    pub window: usize,
    /// When a label takes effect on what is served.
    pub taken_by: TakenBy,
    /// A label takes effect with the first block whose newest event was written this long after it. By then it can be
    /// read, so that a replay takes the same labels with the same blocks.
    pub settle: Period,
    /// Longest that a block waits until its labels are read, with `learner.when_behind` = "wait". After it, learning goes on
    /// without them, and a replay may take them with other blocks.
    pub patience: Period,
    /// An event without a label counts as `negative_class` once the stream's events are this much later; unset for
    /// never.
    pub negative_after: Option<Period>,
    /// Class of events without a label; by default the bundle's first.
    pub negative_class: Option<String>,
    /// Which labels are asked for, and where.
    pub requests: RequestSettings,
}

/// When a label takes effect. Always at the border of a block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TakenBy {
    /// By the time of its record, compared with those of events. A replay takes the same labels with the same blocks.
    #[default]
    Time,
    /// When it has been read: for topics whose records have times that cannot be compared.
    Arrival,
}

/// Section `labels.requests`: ids of events whose labels are worth having.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestSettings {
    /// Topic that requests are written to; without one, they are shown by `ostard labels wanted` and on the page.
    pub topic: Option<String>,
    /// Requests after every block, drawn at random among events on which candidates disagree.
    pub per_block: usize,
    /// Requests after every block, drawn at random among all events.
    pub random_per_block: usize,
}

impl Default for RequestSettings {
    fn default() -> Self {
        Self {
            topic: None,
            per_block: 10,
            random_per_block: 0,
        }
    }
}

/// Format of a label's payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabelFormat {
    /// One JSON object per record.
    #[default]
    Json,
    /// The message `ostar.v1.Label`.
    Protobuf,
}

impl Default for LabelSettings {
    fn default() -> Self {
        Self {
            topic: None,
            format: LabelFormat::Json,
            id_field: "id".into(),
            label_field: "label".into(),
            cache: 100_000,
            cache_bytes: 268_435_456,
            window: 10_000,
            taken_by: TakenBy::Time,
            settle: Period::from_secs(2),
            patience: Period::from_secs(10),
            negative_after: None,
            negative_class: None,
            requests: RequestSettings::default(),
        }
    }
}

/// About what a prediction takes while it waits, without its probabilities: its id, times and places in maps.
const PREDICTION_BYTES: usize = 160;

impl LabelSettings {
    /// Predictions that may wait if each keeps so many probabilities: `cache`, or as many as `cache_bytes` has room for.
    pub fn most_predictions(&self, probabilities: usize) -> usize {
        self.cache.min(self.room(probabilities))
    }

    /// Joined labels that the sliding measures may be taken over, likewise.
    pub fn most_in_window(&self, probabilities: usize) -> usize {
        self.window.min(self.room(probabilities))
    }

    fn room(&self, probabilities: usize) -> usize {
        let bytes = PREDICTION_BYTES + probabilities * size_of::<f32>();
        (self.cache_bytes / bytes).max(1)
    }

    /// Adds what is wrong to `problems`.
    pub fn validate(&self, problems: &mut Vec<Problem>) {
        check_topic("labels.topic", self.topic.as_deref(), problems);
        let requests = self.requests.topic.as_deref();
        check_topic("labels.requests.topic", requests, problems);
        if self.topic.is_none() && requests.is_some() {
            let hint = "expected labels.topic too: answers come there";
            problems.push(Problem::value("labels.requests.topic", requests, hint));
        }
        if self
            .negative_after
            .is_some_and(|after| after.get().is_zero())
        {
            let hint = "expected more than 0";
            problems.push(Problem::value("labels.negative_after", "0s", hint));
        }
        for (key, value) in [
            ("cache", self.cache),
            ("cache_bytes", self.cache_bytes),
            ("window", self.window),
        ] {
            if value == 0 {
                let path = format!("labels.{key}");
                problems.push(Problem::value(path, value, "expected at least 1"));
            }
        }
        let names = [
            ("id_field", &self.id_field),
            ("label_field", &self.label_field),
        ];
        check_field_names("labels", names, problems);
    }
}
