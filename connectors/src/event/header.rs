//! The id and the time of an event, in the types that producers use.

use super::{Cell, Reject, RejectReason, settings::TimeUnit};

/// Longest id, in bytes. Up to `labels.cache` ids wait in memory for their labels.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// `None` for an empty id; an error for one over [`MAX_ID_BYTES`].
pub(super) fn checked_id(id: &str) -> Result<Option<Box<str>>, Reject> {
    match id.len() {
        0 => Ok(None),
        1..=MAX_ID_BYTES => Ok(Some(id.into())),
        bytes => Err(Reject::new(
            RejectReason::BadId,
            format!("the id has {bytes} bytes, expected at most {MAX_ID_BYTES}"),
        )),
    }
}

/// A key that is unusable as an id gives no id. That is not an error: the producer may use keys for partitioning.
pub(super) fn id_of_key(key: Option<&[u8]>) -> Option<Box<str>> {
    let key = key.filter(|key| (1..=MAX_ID_BYTES).contains(&key.len()))?;
    std::str::from_utf8(key).ok().map(Box::from)
}

/// The id from a text or a whole number; `None` if it is missing or empty.
pub(super) fn id(name: &str, cell: &Cell<'_>) -> Result<Option<Box<str>>, Reject> {
    match cell {
        Cell::Missing => Ok(None),
        Cell::Text(text) => checked_id(text),
        Cell::Integer(id) => checked_id(&id.to_string()),
        Cell::Bool(_) | Cell::Number(_) | Cell::Texts(_) => Err(Reject::wrong_type(format!(
            "`{name}` is {cell}, expected a text or a whole number"
        ))),
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
        None => Err(Reject::wrong_type(format!(
            "`{name}` is {cell}, expected {} since 1970 or a time like 2026-01-31T12:00:00Z",
            unit.in_words()
        ))),
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
