//! What stands where in a file.

use std::collections::BTreeMap;

use ostar_model::bundle::Input;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What stands where in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FileSettings {
    /// Column of the classes. By default `label`, if there is one.
    pub label: Option<String>,
    /// Column of the events' ids. By default `id`, if there is one.
    pub id: Option<String>,
    /// Column of the events' times, in milliseconds since 1970. By default `time_ms`, if there is one.
    pub time: Option<String>,
    /// What the rows are. By default what a bundle takes, or else what the columns are called, or else fields.
    pub input: Option<InputKind>,
    /// Numbers: a column of arrays, or what the numbered columns of a row begin with (`z` for z0, z1...). By
    /// default the input's own name, and for dense features also all columns that are nothing else.
    pub columns: Option<String>,
    /// Named fields: what a column is, where the guess would be wrong.
    pub kinds: BTreeMap<String, ColumnKind>,
    /// Named fields: rows of the embedding table that a new model gets.
    pub buckets: usize,
    /// Names of the classes in the order of their labels, for a new model. By default all that occur, sorted.
    pub classes: Vec<String>,
}

/// What the rows of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A black box's probabilities, one a class.
    Probabilities,
    /// A black box's logits, one a class.
    Logits,
    /// Latent vectors.
    Latent,
    /// Dense features.
    Dense,
    /// Named fields.
    Fields,
}

/// What a column of named fields is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// A number.
    Number,
    /// One token.
    Category,
    /// A bag of words.
    Text,
    /// Not for the model.
    Ignore,
}

// === impl FileSettings ===

impl Default for FileSettings {
    fn default() -> Self {
        Self {
            label: None,
            id: None,
            time: None,
            input: None,
            columns: None,
            kinds: BTreeMap::new(),
            buckets: 1 << 16,
            classes: Vec::new(),
        }
    }
}

impl FileSettings {
    /// Adds what is wrong to `problems`.
    pub fn validate(&self, problems: &mut Vec<String>) {
        if self.buckets == 0 {
            problems.push("file.buckets is 0, expected at least 1".into());
        }
        let names = [
            ("label", &self.label),
            ("id", &self.id),
            ("time", &self.time),
            ("columns", &self.columns),
        ];
        for (key, name) in names {
            if name.as_ref().is_some_and(String::is_empty) {
                problems.push(format!("file.{key} is empty, expected a column's name"));
            }
        }
    }
}

// === impl InputKind ===

impl InputKind {
    /// All that are rows of numbers.
    pub(super) const NUMBERS: [Self; 4] =
        [Self::Probabilities, Self::Logits, Self::Latent, Self::Dense];

    /// As settings and events write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Probabilities => "probabilities",
            Self::Logits => "logits",
            Self::Latent => "latent",
            Self::Dense => "dense",
            Self::Fields => "fields",
        }
    }
}

impl From<&Input> for InputKind {
    fn from(input: &Input) -> Self {
        match input {
            Input::Probabilities => Self::Probabilities,
            Input::Logits => Self::Logits,
            Input::Latent { .. } => Self::Latent,
            Input::Dense { .. } => Self::Dense,
            Input::Fields(_) => Self::Fields,
        }
    }
}
