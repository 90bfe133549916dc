//! Section `labels`: how late labels are read and joined.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Problem;

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
    /// Joined labels that the sliding measures are taken over.
    pub window: usize,
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
            window: 10_000,
        }
    }
}

impl LabelSettings {
    /// Adds what is wrong to `problems`.
    pub fn validate(&self, problems: &mut Vec<Problem>) {
        crate::kafka::check_topic("labels.topic", self.topic.as_deref(), problems);
        for (key, value) in [("cache", self.cache), ("window", self.window)] {
            if value == 0 {
                let path = format!("labels.{key}");
                problems.push(Problem::value(path, value, "expected at least 1"));
            }
        }
        for (key, name) in [
            ("id_field", &self.id_field),
            ("label_field", &self.label_field),
        ] {
            if name.is_empty() {
                let path = format!("labels.{key}");
                problems.push(Problem::value(path, name, "expected a field's name"));
            }
        }
        if self.id_field == self.label_field {
            let hint = "expected another name than labels.id_field";
            problems.push(Problem::value(
                "labels.label_field",
                &self.label_field,
                hint,
            ));
        }
    }
}
