//! What is left of a payload, and values at its beginning.

use crate::event::Reject;

/// Splits bytes off the front.
pub(super) fn take<'p>(rest: &mut &'p [u8], count: usize) -> Result<&'p [u8], Reject> {
    rest.split_off(..count).ok_or_else(ended)
}

/// The same of a number's size.
pub(super) fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Reject> {
    let bytes = rest.split_off(..N).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(ended)
}

/// A number whose sign is its last bit.
pub(super) fn zigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub(super) fn ended() -> Reject {
    Reject::malformed("the payload ends within a value")
}
