//! Reads protobuf events that carry one vector, in place.
//!
//! Most events are a short header and a long packed vector. prost copies the vector number by number into a `Vec`; this
//! only finds where it starts in the payload.

use ostar_bundle::InputKind;
use prost::encoding::{WireType, decode_key, decode_varint};

/// An `ostar.v1.Event` whose input is a vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct VectorEvent<'a> {
    pub(super) id: &'a str,
    pub(super) time_ms: Option<i64>,
    pub(super) kind: InputKind,
    /// Little-endian `f32`s inside the payload.
    pub(super) values: &'a [[u8; 4]],
}

/// The event, if it is encoded the way encoders do it: each field at most once, none unknown, numbers packed.
/// `None` does not mean that the payload is malformed: prost has to read it.
pub(super) fn read(payload: &[u8]) -> Option<VectorEvent<'_>> {
    let mut rest = payload;
    let (mut id, mut time_ms, mut input) = (None, None, None);
    while !rest.is_empty() {
        match decode_key(&mut rest).ok()? {
            (1, WireType::LengthDelimited) if id.is_none() => {
                id = Some(std::str::from_utf8(delimited(&mut rest)?).ok()?);
            }
            (2, WireType::Varint) if time_ms.is_none() => {
                time_ms = Some(decode_varint(&mut rest).ok()? as i64);
            }
            (3, WireType::LengthDelimited) if input.is_none() => {
                input = Some(delimited(&mut rest)?);
            }
            _ => return None,
        }
    }
    let (number, vector) = only_field(input?)?;
    // Field numbers of `ostar.v1.Input`.
    let kind = match number {
        1 => InputKind::Probabilities,
        2 => InputKind::Logits,
        3 => InputKind::Latent,
        4 => InputKind::Dense,
        _ => return None,
    };
    let (1, values) = only_field(vector)? else {
        return None;
    };
    let (values, []) = values.as_chunks::<4>() else {
        return None;
    };
    Some(VectorEvent {
        id: id.unwrap_or_default(),
        time_ms,
        kind,
        values,
    })
}

/// Number and bytes of the only field of a message; `None` if there are others or it is not length-delimited.
fn only_field(mut message: &[u8]) -> Option<(u32, &[u8])> {
    let (number, WireType::LengthDelimited) = decode_key(&mut message).ok()? else {
        return None;
    };
    let bytes = delimited(&mut message)?;
    message.is_empty().then_some((number, bytes))
}

/// Splits a length-delimited value off the front.
fn delimited<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(decode_varint(rest).ok()?).ok()?;
    rest.split_off(..length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::proto::{Event, Input, Vector, input::Kind};

    fn event(id: &str, time_ms: Option<i64>, kind: Option<Kind>) -> Event {
        Event {
            id: id.to_owned(),
            time_ms,
            input: Some(Input { kind }),
        }
    }

    /// The event as prost's type, to compare with.
    fn as_message(read: &VectorEvent<'_>) -> Event {
        let values = read.values.iter().map(|word| f32::from_le_bytes(*word));
        let vector = Vector {
            values: values.collect(),
        };
        let kind = match read.kind {
            InputKind::Probabilities => Kind::Probabilities(vector),
            InputKind::Logits => Kind::Logits(vector),
            InputKind::Latent => Kind::Latent(vector),
            InputKind::Dense => Kind::Dense(vector),
            InputKind::Fields => panic!("fields are not a vector"),
        };
        event(read.id, read.time_ms, Some(kind))
    }

    proptest! {
        #[test]
        fn what_encoders_write_is_read_as_the_generated_decoder_reads_it(
            values in prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 1..200),
            id in "\\PC{0,20}",
            time_ms in any::<Option<i64>>(),
            kind in 0..4,
        ) {
            let kinds = [Kind::Probabilities, Kind::Logits, Kind::Latent, Kind::Dense];
            let payload = event(&id, time_ms, Some(kinds[kind as usize](Vector { values }))).encode_to_vec();
            let read = as_message(&read(&payload).unwrap());
            // By bytes, in which NaN equals itself.
            prop_assert_eq!(read.encode_to_vec(), payload);
        }

        #[test]
        fn damaged_events_are_left_alone_or_read_as_the_generated_decoder_reads_them(
            values in prop::collection::vec(-1e3f32..1e3, 1..8),
            place in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            end in any::<prop::sample::Index>(),
        ) {
            let mut payload = event("id", Some(7), Some(Kind::Latent(Vector { values }))).encode_to_vec();
            let place = place.index(payload.len());
            payload[place] = byte;
            payload.truncate(end.index(payload.len()) + 1);
            if let Some(read) = read(&payload) {
                let expected = Event::decode(&payload[..]).unwrap();
                prop_assert_eq!(as_message(&read).encode_to_vec(), expected.encode_to_vec());
            }
        }
    }

    #[test]
    fn what_encoders_do_not_write_is_left_to_the_generated_decoder() {
        let once = event("", None, Some(Kind::Dense(Vector { values: vec![1.0] }))).encode_to_vec();
        assert!(read(&once).is_some());
        // The last input of several counts, and unknown fields are skipped.
        assert_eq!(read(&once.repeat(2)), None);
        let unknown = [&once[..], &[0x20, 0x01]].concat();
        assert_eq!(read(&unknown), None);
        // Not packed: each number under its own key.
        let one_by_one = [0x1a, 7, 0x22, 5, 0x0d, 0, 0, 0x80, 0x3f];
        assert_eq!(read(&one_by_one), None);
        assert_eq!(
            Event::decode(&one_by_one[..]).unwrap().encode_to_vec(),
            once
        );
    }
}
