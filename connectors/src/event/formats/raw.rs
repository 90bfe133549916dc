//! Vectors of little-endian 32-bit numbers and nothing else.

use super::Format;
use crate::event::{Reject, RejectReason, Row, collector::Collector, layout::Layout};

#[derive(Debug)]
pub(super) struct Raw {
    width: usize,
}

impl Raw {
    /// Named fields have been refused: raw events have no names.
    pub(super) fn new(layout: &Layout) -> Self {
        let width = match layout {
            Layout::Dense(dense) => dense.width,
            Layout::Fields(_) => 0,
        };
        Self { width }
    }
}

impl Format for Raw {
    fn read<'p>(&'p self, payload: &'p [u8], event: &mut Collector<'_, 'p>) -> Result<(), Reject> {
        let (words, rest) = payload.as_chunks::<4>();
        if !rest.is_empty() {
            let detail = format!(
                "the payload has {} bytes, expected {} numbers of 4",
                payload.len(),
                self.width
            );
            return Err(Reject::new(RejectReason::WrongWidth, detail));
        }
        event.words(words);
        Ok(())
    }

    fn write(&self, _id: Option<&str>, _time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        match row {
            Row::Dense(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Row::Fields(_) => Vec::new(),
        }
    }
}
