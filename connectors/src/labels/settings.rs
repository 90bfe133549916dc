//! How late labels are read and joined.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Section `labels` of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LabelSettings {
    /// Topic that they come from; without one there are none.
    pub topic: Option<String>,
    /// Format of the payloads.
    pub format: LabelFormat,
    /// JSON: name of the event's id, a text or a whole number.
    pub id_field: String,
    /// JSON: name of the label, a class's name or number.
    pub label_field: String,
    /// Predictions that wait for their labels at most, and labels that wait for their predictions.
    pub cache: usize,
    /// How many joined labels the sliding measures look back on.
    pub window: usize,
}

/// Format of a label's payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LabelFormat {
    /// An object a record.
    #[default]
    Json,
    /// `ostar.v1.Label`.
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
    pub fn validate(&self, problems: &mut Vec<String>) {
        crate::kafka::check_topic("labels.topic", self.topic.as_deref(), problems);
        for (key, value) in [("cache", self.cache), ("window", self.window)] {
            if value == 0 {
                problems.push(format!("labels.{key} is 0, expected at least 1"));
            }
        }
        for (key, name) in [
            ("id_field", &self.id_field),
            ("label_field", &self.label_field),
        ] {
            if name.is_empty() {
                problems.push(format!("labels.{key} is empty, expected a field's name"));
            }
        }
        if self.id_field == self.label_field {
            problems.push(format!(
                "labels.id_field and labels.label_field are both {:?}, expected two names",
                self.id_field
            ));
        }
    }
}
