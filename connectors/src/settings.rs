//! Types that several sections of the configuration use.

use std::{fmt, str::FromStr, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::{
    credentials::{MASK, without_credentials},
    problem::{Found, KeyPath, Problem},
};

/// A duration in the configuration, written as a whole number and a unit: "500ms", "10s", "5m", "1h".
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Period(Duration);

/// Units from the longest, so that printing finds the shortest form.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

// === impl Period ===

impl Period {
    /// From milliseconds, the finest unit that the configuration knows.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// From seconds, for defaults.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// The period as a [`Duration`], for timers and deadlines.
    pub const fn get(self) -> Duration {
        self.0
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.chars().take_while(char::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim());
        let milliseconds = number.parse::<u64>().ok().zip(unit);
        let milliseconds = milliseconds.and_then(|(number, (_, unit))| number.checked_mul(*unit));
        match milliseconds {
            Some(milliseconds) => Ok(Self::from_millis(milliseconds)),
            None => Err("expected a whole number with ms, s, m or h, like \"10s\"".into()),
        }
    }
}

impl TryFrom<String> for Period {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Period> for String {
    fn from(period: Period) -> Self {
        period.to_string()
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis() as u64;
        let whole = |unit: &&(&str, u64)| milliseconds.is_multiple_of(unit.1);
        let (name, unit) = UNITS.iter().find(whole).expect("1 ms divides all");
        match milliseconds {
            0 => formatter.write_str("0s"),
            _ => write!(formatter, "{}{name}", milliseconds / unit),
        }
    }
}

/// Periods of a section that must not be 0.
pub fn check_periods(
    section: &str,
    periods: impl IntoIterator<Item = (&'static str, Period)>,
    problems: &mut Vec<Problem>,
) {
    for (key, period) in periods {
        if period.get().is_zero() {
            let path = format!("{section}.{key}");
            problems.push(Problem::value(path, period, "expected at least 1ms"));
        }
    }
}

/// Names of two fields of a record, which must be there and differ.
pub(crate) fn check_field_names(
    section: &str,
    fields: [(&str, &String); 2],
    problems: &mut Vec<Problem>,
) {
    for (key, name) in fields.into_iter().filter(|(_, name)| name.is_empty()) {
        let path = format!("{section}.{key}");
        problems.push(Problem::value(path, name, "expected a field's name"));
    }
    let [(first, name), (second, other)] = fields;
    if name == other {
        let hint = format!("expected another name than {section}.{first}");
        problems.push(Problem::value(format!("{section}.{second}"), other, hint));
    }
}

/// A topic that is named must have a name.
pub(crate) fn check_topic(key: &str, topic: Option<&str>, problems: &mut Vec<Problem>) {
    if let Some(topic) = topic.map(str::trim).filter(|topic| topic.is_empty()) {
        let hint = "expected a topic's name, or no such key";
        problems.push(Problem::value(key, topic, hint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_read_and_print_in_their_shortest_form() {
        for (text, milliseconds, printed) in [
            ("500ms", 500, "500ms"),
            ("10s", 10_000, "10s"),
            ("120s", 120_000, "2m"),
            ("0s", 0, "0s"),
            ("1h", 3_600_000, "1h"),
        ] {
            let period: Period = text.parse().unwrap();
            assert_eq!(period.get().as_millis(), milliseconds);
            assert_eq!(period.to_string(), printed);
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_form_that_is_wanted() {
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "1.5s",
            "10 parsecs",
            "99999999999999999999h",
        ] {
            let problem = text.parse::<Period>().unwrap_err();
            assert!(problem.contains("\"10s\""), "{problem}");
        }
    }
}
