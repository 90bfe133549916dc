//! Section `events`: the format of events.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::path::Path;
use crate::settings::{Period, Problem, check_field_names};

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
    /// JSON: key or JSON pointer of the id, a text or a whole number.
    pub id_field: String,
    /// JSON: key or JSON pointer of the time, a number or a text of RFC 3339.
    pub time_field: String,
    /// Unit of times that are numbers: s, ms, us or ns since 1970.
    pub time_unit: TimeUnit,
    /// How much later than its record's time stamp an event's time may be, and how much later than this machine's clock the
    /// time stamps of events, samples and labels. Later ones are rejected.
    pub max_time_ahead: Period,
    /// Avro: file of the schema. Without a registry all events are written with it; with one, its aliases and defaults
    /// apply to what events are written with. Protobuf: file of a descriptor set, for messages of one's own.
    pub schema_file: Option<PathBuf>,
    /// Protobuf with a descriptor set: full name of the message, like "shop.Order". With a registry: the only message that
    /// is taken.
    pub message: Option<String>,
    /// Registry of the events' schemas.
    pub registry: RegistrySettings,
    /// Where the fields of the bundle are in an event, as paths like "/item/price" or "item.price". Fields that are not
    /// named are keys of the event's own object.
    pub fields: BTreeMap<String, String>,
}

/// Section `events.registry` of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RegistrySettings {
    /// Address of a schema registry with Confluent's API. If set, every payload begins with the id of its schema.
    pub url: Option<String>,
    /// User of basic authentication.
    pub username: Option<String>,
    /// File with the password of basic authentication.
    pub password_file: Option<PathBuf>,
    /// File with a bearer token. Comes before basic authentication.
    pub token_file: Option<PathBuf>,
    /// File with the authorities of the registry's certificate, in PEM. By default those that browsers know.
    pub ca: Option<PathBuf>,
    /// How long an answer may take.
    pub timeout: Period,
}

impl Default for RegistrySettings {
    fn default() -> Self {
        Self {
            url: None,
            username: None,
            password_file: None,
            token_file: None,
            ca: None,
            timeout: Period::from_secs(10),
        }
    }
}

/// Unit of times that are numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Seconds; a fraction is read, too.
    S,
    /// Milliseconds.
    #[default]
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl TimeUnit {
    /// Units in a second.
    const fn per_second(self) -> i64 {
        match self {
            Self::S => 1,
            Self::Ms => 1_000,
            Self::Us => 1_000_000,
            Self::Ns => 1_000_000_000,
        }
    }

    /// A time in milliseconds.
    pub(crate) const fn to_ms(self, time: i64) -> i64 {
        match self {
            Self::S => time.saturating_mul(1_000),
            Self::Ms => time,
            Self::Us | Self::Ns => time.div_euclid(self.per_second() / 1_000),
        }
    }

    /// Milliseconds in this unit.
    pub(crate) const fn of_ms(self, time_ms: i64) -> i64 {
        match self {
            Self::S => time_ms.div_euclid(1_000),
            Self::Ms => time_ms,
            Self::Us | Self::Ns => time_ms.saturating_mul(self.per_second() / 1_000),
        }
    }

    /// A time with a fraction in milliseconds; `None` if it is too large.
    pub(crate) fn fraction_to_ms(self, time: f64) -> Option<i64> {
        let ms = (time * 1_000.0 / self.per_second() as f64).round();
        // Also false for NaN.
        (ms.abs() < 9e18).then_some(ms as i64)
    }

    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Self::S => "seconds",
            Self::Ms => "milliseconds",
            Self::Us => "microseconds",
            Self::Ns => "nanoseconds",
        }
    }
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
    /// Avro's binary encoding, with a schema from a registry or a file.
    Avro,
}

impl EventFormat {
    /// The formats whose events need no schema.
    #[cfg(test)]
    pub(crate) const PLAIN: [Self; 3] = [Self::Json, Self::Protobuf, Self::Raw];

    /// Whether an event has named fields, an id and a time of its own. Without them it is a vector, and the record has
    /// the id and the time.
    pub(crate) const fn has_names(self) -> bool {
        !matches!(self, Self::Raw)
    }
}

/// Most that `max_depth` may be: serde_json stops at 128 levels.
pub(super) const DEEPEST: usize = 100;

impl Default for EventSettings {
    fn default() -> Self {
        Self {
            format: EventFormat::Json,
            max_bytes: 1 << 20,
            max_depth: 16,
            flat: false,
            id_field: "id".into(),
            time_field: "time_ms".into(),
            time_unit: TimeUnit::Ms,
            max_time_ahead: Period::from_secs(300),
            schema_file: None,
            message: None,
            registry: RegistrySettings::default(),
            fields: BTreeMap::new(),
        }
    }
}

impl EventSettings {
    /// Whether named fields are looked for in the event's own object.
    pub(crate) fn is_flat(&self) -> bool {
        self.flat
            || !self.fields.is_empty()
            || self.format == EventFormat::Avro
            || self.has_own_message()
    }

    /// Whether events are Protobuf messages of a descriptor set or of a registry.
    pub(crate) fn has_own_message(&self) -> bool {
        self.format == EventFormat::Protobuf
            && (self.schema_file.is_some() || self.registry.url.is_some())
    }

    /// Whether payloads can only be read with a schema, from a file or a registry.
    pub(crate) fn has_schema(&self) -> bool {
        self.format == EventFormat::Avro || self.has_own_message() || self.registry.url.is_some()
    }

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
        let names = [
            ("id_field", &self.id_field),
            ("time_field", &self.time_field),
        ];
        check_field_names("events", names, problems);
        for (field, path) in &self.fields {
            if let Err(hint) = Path::parse(path) {
                problems.push(Problem::value(format!("events.fields.{field}"), path, hint));
            }
        }
        if self.format == EventFormat::Avro
            && self.schema_file.is_none()
            && self.registry.url.is_none()
        {
            let hint = "expected events.registry.url or events.schema_file to be set";
            problems.push(Problem::value("events.format", "avro", hint));
        }
        if self.has_own_message() && self.message.is_none() && self.registry.url.is_none() {
            let hint = "is not set, expected the full name of the message, like \"shop.Order\"";
            problems.push(Problem::key("events.message", hint));
        }
        let registry = &self.registry;
        if let Some(url) = &registry.url {
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                let hint = "expected an address like \"https://registry.example:8081\"";
                problems.push(Problem::value("events.registry.url", url, hint));
            }
            if !self.format.has_names() {
                let hint = "expected events.format to be avro, protobuf or json";
                problems.push(Problem::value("events.registry.url", url, hint));
            }
        }
        if registry.password_file.is_some() && registry.username.is_none() {
            let hint = "is set, expected events.registry.username to be set too";
            problems.push(Problem::key("events.registry.password_file", hint));
        }
        if !self.fields.is_empty() && !self.format.has_names() {
            let hint =
                "is set, expected nothing while events.format is raw: raw events have no fields";
            problems.push(Problem::key("events.fields", hint));
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
            time_unit: TimeUnit::Ms,
            max_time_ahead: Period::from_secs(0),
            schema_file: None,
            message: None,
            registry: RegistrySettings {
                url: Some("registry:8081".into()),
                password_file: Some("password".into()),
                ..RegistrySettings::default()
            },
            fields: BTreeMap::from([("price".to_owned(), "a..b".to_owned())]),
        };
        wrong.validate(&mut problems);
        assert_eq!(problems.len(), 11, "{problems:#?}");
        assert_eq!(
            problems[1].to_string(),
            "events.max_depth is 1, expected 2 to 100"
        );
    }
}
