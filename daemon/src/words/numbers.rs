//! Numbers as people read them.

use indicatif::HumanCount;

use crate::facts::Unit;

/// In the place of what is not known.
pub(crate) const UNKNOWN: &str = "–";

/// A share as percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Both ends of an interval of a share.
pub(super) fn interval(low: f64, high: f64) -> String {
    format!("{:.1} to {}", 100.0 * low, percent(high))
}

/// A whole number, with commas between thousands.
pub(crate) fn count(number: f64) -> String {
    let text = HumanCount(number.abs().round() as u64);
    if number <= -0.5 {
        format!("-{text}")
    } else {
        text.to_string()
    }
}

/// A rate, with one decimal below 10.
pub(crate) fn rate(number: f64) -> String {
    if number > 0.0 && number < 10.0 {
        format!("{number:.1}")
    } else {
        count(number)
    }
}

/// A duration in seconds, in the unit that people would use.
pub(crate) fn span(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        10.0..90.0 => format!("{seconds:.0} s"),
        90.0..5_400.0 => format!("{:.0} min", seconds / 60.0),
        5_400.0..172_800.0 => format!("{:.1} h", seconds / 3_600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// A figure in its unit.
pub(super) fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Number => format!("{value:.3}"),
        Unit::Count => count(value),
        Unit::Share => percent(value),
    }
}

/// The text, or that it is not known.
pub(super) fn or_unknown(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_have_their_units() {
        let counted = [
            (0.0, "0"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-1_000.0, "-1,000"),
        ];
        for (number, text) in counted {
            assert_eq!(count(number), text);
        }
        assert_eq!(
            (rate(0.0), rate(2.34), rate(1_500.0)),
            ("0".into(), "2.3".into(), "1,500".into())
        );
        let spans = [
            (2.34, "2.3 s"),
            (59.6, "60 s"),
            (600.0, "10 min"),
            (9_000.0, "2.5 h"),
            (3.0 * 86_400.0, "3 days"),
        ];
        for (seconds, text) in spans {
            assert_eq!(span(seconds), text);
        }
        assert_eq!(interval(0.25, 0.5), "25.0 to 50.0 %");
    }
}
