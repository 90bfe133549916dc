//! Avro's binary encoding of single values.

use prost::encoding::decode_varint;

use super::super::bytes::{array, ended, take, zigzag};
use crate::event::Reject;

/// Of a number of 64 bits.
const MOST_BYTES: usize = 10;

/// What is left of a payload.
pub(super) struct Bytes<'p>(pub(super) &'p [u8]);

impl<'p> Bytes<'p> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'p [u8], Reject> {
        take(&mut self.0, count)
    }

    /// A zigzag number of up to ten bytes.
    pub(super) fn long(&mut self) -> Result<i64, Reject> {
        let left = self.0.len();
        match decode_varint(&mut self.0) {
            Ok(value) => Ok(zigzag(value)),
            Err(_) if left < MOST_BYTES => Err(ended()),
            Err(_) => Err(Reject::malformed("a number has more than 64 bits")),
        }
    }

    pub(super) fn int(&mut self) -> Result<i64, Reject> {
        let value = self.long()?;
        match i32::try_from(value) {
            Ok(_) => Ok(value),
            Err(_) => Err(Reject::malformed(format!(
                "an int is {value}, expected 32 bits"
            ))),
        }
    }

    pub(super) fn boolean(&mut self) -> Result<bool, Reject> {
        match array(&mut self.0)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Reject::malformed(format!(
                "a boolean is {other}, expected 0 or 1"
            ))),
        }
    }

    pub(super) fn float(&mut self) -> Result<f32, Reject> {
        Ok(f32::from_le_bytes(array(&mut self.0)?))
    }

    pub(super) fn double(&mut self) -> Result<f64, Reject> {
        Ok(f64::from_le_bytes(array(&mut self.0)?))
    }

    /// Bytes behind their length.
    pub(super) fn bytes(&mut self) -> Result<&'p [u8], Reject> {
        let length = self.length("a length")?;
        self.take(length)
    }

    fn length(&mut self, what: &str) -> Result<usize, Reject> {
        let length = self.long()?;
        usize::try_from(length)
            .map_err(|_| Reject::malformed(format!("{what} is {length}, expected 0 or more")))
    }

    pub(super) fn text(&mut self) -> Result<&'p str, Reject> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Reject::malformed("a string is not UTF-8"))
    }

    /// The index of a union's branch or an enum's symbol.
    pub(super) fn index(&mut self, count: usize) -> Result<usize, Reject> {
        let index = self.long()?;
        match usize::try_from(index) {
            Ok(index) if index < count => Ok(index),
            _ => Err(Reject::malformed(format!(
                "an index is {index}, expected below {count}"
            ))),
        }
    }

    /// The next block of an array or a map: how many elements it has, and its size if it tells.
    pub(super) fn block(&mut self) -> Result<(u64, Option<usize>), Reject> {
        let count = self.long()?;
        if count >= 0 {
            return Ok((count as u64, None));
        }
        let size = self.length("a block's size")?;
        Ok((count.unsigned_abs(), Some(size)))
    }
}
