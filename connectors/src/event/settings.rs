//! Section `events`: the format of events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Problem;

/// Section `events` of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EventSettings {
    /// Format of the events' payloads.
    pub format: EventFormat,
    /// Most bytes of a payload; larger ones are rejected.
    pub max_bytes: usize,
    /// JSON: most levels of nesting; deeper events are rejected. The event's own object is level 1.
    pub max_depth: usize,
    /// JSON with named fields: they are keys of the event's own object, not of an object called `fields`.
    pub flat: bool,
    /// JSON: key of the id, a text or a whole number.
    pub id_field: String,
    /// JSON: key of the time, in milliseconds since 1970.
    pub time_field: String,
}

/// Format of a record's payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventFormat {
    /// One JSON object per record.
    #[default]
    Json,
    /// The message `ostar.v1.Event`.
    Protobuf,
    /// Little-endian 32-bit floating-point numbers and nothing else.
    Raw,
}

/// Most that `max_depth` may be: serde_json stops at 128 levels.
const DEEPEST: usize = 100;

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            format: EventFormat::Json,
            max_bytes: 1 << 20,
            max_depth: 16,
            flat: false,
            id_field: "id".into(),
            time_field: "time_ms".into(),
        }
    }
}

impl EventSettings {
    /// Adds what is wrong to `problems`.
    pub fn validate(&self, problems: &mut Vec<Problem>) {
        if self.max_bytes == 0 {
            let path = "events.max_bytes";
            problems.push(Problem::value(path, self.max_bytes, "expected at least 1"));
        }
        if !(2..=DEEPEST).contains(&self.max_depth) {
            let hint = format!("expected 2 to {DEEPEST}");
            problems.push(Problem::value("events.max_depth", self.max_depth, hint));
        }
        for (key, name) in [
            ("id_field", &self.id_field),
            ("time_field", &self.time_field),
        ] {
            if name.is_empty() {
                let path = format!("events.{key}");
                problems.push(Problem::value(path, name, "expected a field's name"));
            }
        }
        if self.id_field == self.time_field {
            let hint = "expected another name than events.id_field";
            problems.push(Problem::value("events.time_field", &self.time_field, hint));
        }
        if self.flat && self.format != EventFormat::Json {
            let hint = "expected false unless events.format is json";
            problems.push(Problem::value("events.flat", self.flat, hint));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_told_at_once_and_the_defaults_have_none() {
        let mut problems = Vec::new();
        EventSettings::default().validate(&mut problems);
        assert!(problems.is_empty(), "{problems:#?}");
        let wrong = EventSettings {
            format: EventFormat::Raw,
            max_bytes: 0,
            max_depth: 1,
            flat: true,
            id_field: String::new(),
            time_field: String::new(),
        };
        wrong.validate(&mut problems);
        assert_eq!(problems.len(), 6, "{problems:#?}");
        assert_eq!(
            problems[1].to_string(),
            "events.max_depth is 1, expected 2 to 100"
        );
    }
}
