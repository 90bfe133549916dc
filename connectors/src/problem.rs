//! What is wrong with a setting, in parts that the configuration can add to: where the value came from.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::credentials::without_credentials;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Which setting.
    pub path: KeyPath,
    /// What it holds.
    pub found: Found,
    /// What was expected and what to do, as it follows the value: "expected at least 1".
    pub hint: String,
}

/// What a setting with a problem holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// A value that is not allowed. Secrets must be masked before, but for those in addresses.
    Value(Value),
    /// Nothing, where a value is needed.
    Unset,
    /// Anything: the key is the problem. The hint then follows the key.
    AnyValue,
}

/// The keys that lead to a setting, from its section down. An option of librdkafka is one key, although its name has dots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<String>);

/// Some names as an error shows them: the first dozen.
pub(crate) fn listed<'n>(names: impl ExactSizeIterator<Item = &'n String>) -> String {
    const SHOWN: usize = 12;
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<_> = names.take(SHOWN).map(|name| format!("`{name}`")).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} others", shown.join(", ")),
    }
}

// === impl Problem ===

impl Problem {
    /// A value that is not allowed.
    pub fn value(path: impl Into<KeyPath>, value: impl Serialize, hint: impl Into<String>) -> Self {
        // Settings are plain data: they were read from the same form.
        let value = serde_json::to_value(value).unwrap_or_default();
        Self::new(path, Found::Value(value), hint)
    }

    /// A setting that must be set.
    pub fn unset(path: impl Into<KeyPath>, hint: impl Into<String>) -> Self {
        Self::new(path, Found::Unset, hint)
    }

    /// A setting that must not be there, or whose value the hint describes.
    pub fn key(path: impl Into<KeyPath>, hint: impl Into<String>) -> Self {
        Self::new(path, Found::AnyValue, hint)
    }

    fn new(path: impl Into<KeyPath>, found: Found, hint: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            found,
            hint: hint.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, found, hint } = self;
        let text = match found {
            Found::Value(Value::String(text)) if text.is_empty() => {
                format!("{path} is empty, {hint}")
            }
            Found::Value(value) => format!("{path} is {value}, {hint}"),
            Found::Unset => format!("{path} is not set, {hint}"),
            Found::AnyValue => format!("{path} {hint}"),
        };
        formatter.write_str(&without_credentials(&text))
    }
}

// === impl KeyPath ===

impl KeyPath {
    /// The path of a key below this one.
    pub fn below(&self, key: impl Into<String>) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.into());
        Self(keys)
    }

    /// The keys, from the section down.
    pub fn keys(&self) -> &[String] {
        &self.0
    }
}

/// From a path without keys that have dots themselves, like `kafka.topic`.
impl From<&str> for KeyPath {
    fn from(path: &str) -> Self {
        Self(path.split('.').map(str::to_owned).collect())
    }
}

impl From<String> for KeyPath {
    fn from(path: String) -> Self {
        Self::from(path.as_str())
    }
}

impl From<Vec<String>> for KeyPath {
    fn from(keys: Vec<String>) -> Self {
        Self(keys)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Period;

    #[test]
    fn a_problem_reads_as_key_value_and_what_was_expected() {
        let expected = "expected at least 1ms";
        let told = |problem: Problem| problem.to_string();
        assert_eq!(
            told(Problem::value(
                "kafka.patience",
                Period::from_secs(0),
                expected
            )),
            "kafka.patience is \"0s\", expected at least 1ms"
        );
        assert_eq!(
            told(Problem::value("kafka.topic", "", "expected a name")),
            "kafka.topic is empty, expected a name"
        );
        assert_eq!(
            told(Problem::unset("bundle.path", "expected a folder")),
            "bundle.path is not set, expected a folder"
        );
        let option = KeyPath::from("kafka.options").below("group.id");
        assert_eq!(option.keys(), ["kafka", "options", "group.id"]);
        assert_eq!(
            told(Problem::key(option, "may not be set")),
            "kafka.options.group.id may not be set"
        );
    }
}
