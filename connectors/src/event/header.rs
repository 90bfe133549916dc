//! The id and the time of an event, in the types that producers use.

use super::{Cell, Reject, RejectReason, decoder::checked_id, settings::TimeUnit};

/// The id from a text or a whole number; `None` if it is missing or empty.
pub(super) fn id(name: &str, cell: &Cell<'_>) -> Result<Option<Box<str>>, Reject> {
    match cell {
        Cell::Missing => Ok(None),
        Cell::Integer(_) | Cell::Text(_) => checked_id(&cell.to_string()),
        Cell::Bool(_) | Cell::Number(_) | Cell::Texts(_) => Err(Reject::new(
            RejectReason::WrongType,
            format!("`{name}` is {cell}, expected a text or a whole number"),
        )),
    }
}

/// The time in milliseconds since 1970, from a number in the unit of the settings or a text of RFC 3339; `None` if it is
/// missing.
pub(super) fn time_ms(name: &str, cell: &Cell<'_>, unit: TimeUnit) -> Result<Option<i64>, Reject> {
    let time = match cell {
        Cell::Missing => return Ok(None),
        Cell::Integer(time) => Some(unit.to_ms(*time)),
        Cell::Number(time) => unit.fraction_to_ms(*time),
        Cell::Text(text) => rfc_3339(text),
        Cell::Bool(_) | Cell::Texts(_) => None,
    };
    match time {
        Some(time) => Ok(Some(time)),
        None => Err(Reject::new(
            RejectReason::WrongType,
            format!(
                "`{name}` is {cell}, expected {} since 1970 or a time like 2026-01-31T12:00:00Z",
                unit.in_words()
            ),
        )),
    }
}

fn rfc_3339(text: &str) -> Option<i64> {
    let time: prost_types::Timestamp = text.parse().ok()?;
    let seconds = time.seconds.checked_mul(1_000)?;
    seconds.checked_add(i64::from(time.nanos) / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_in_the_usual_types() {
        let told = |cell: Cell<'_>, unit| time_ms("time", &cell, unit).unwrap();
        let text = |text: &'static str| Cell::Text(text.into());
        let expected = Some(1_767_225_600_123);
        for (cell, unit) in [
            (Cell::Integer(1_767_225_600_123), TimeUnit::Ms),
            (Cell::Number(1_767_225_600.123), TimeUnit::S),
            (Cell::Integer(1_767_225_600_123_456), TimeUnit::Us),
            (Cell::Integer(1_767_225_600_123_456_789), TimeUnit::Ns),
            (text("2026-01-01T00:00:00.123Z"), TimeUnit::Ms),
            (text("2026-01-01T02:00:00.123+02:00"), TimeUnit::S),
        ] {
            assert_eq!(told(cell.clone(), unit), expected, "{cell:?} in {unit:?}");
        }
        assert_eq!(told(Cell::Integer(i64::MAX), TimeUnit::S), Some(i64::MAX));
        assert_eq!(told(Cell::Integer(-1), TimeUnit::Us), Some(-1));
        assert_eq!(told(Cell::Missing, TimeUnit::Ms), None);
        for wrong in [text("yesterday"), Cell::Bool(true), Cell::Number(1e300)] {
            let refused = time_ms("time", &wrong, TimeUnit::Ms).unwrap_err();
            assert_eq!(refused.reason, RejectReason::WrongType, "{refused}");
        }
    }
}
