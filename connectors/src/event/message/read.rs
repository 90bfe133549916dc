//! Runs a plan over a payload.

use std::borrow::Cow;

use ostar_bundle::fields::FieldKind;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use prost_reflect::Kind;

use super::{Entry, Plan, Wanted};
use crate::event::{
    Cell, Reject, RejectReason,
    settings::TimeUnit,
    slots::{HeaderNames, Slots},
};

impl Plan {
    pub(in crate::event) fn read<'a, 'p>(
        &'p self,
        payload: &'p [u8],
        names: &'a HeaderNames,
        fields: usize,
        width: usize,
    ) -> Result<Slots<'a, 'p>, Reject> {
        let mut slots = Slots::new(names, fields, width);
        self.message(payload, &mut slots)?;
        // A message may be all zeros, of which nothing is written.
        slots.has_input |= fields > 0;
        Ok(slots)
    }

    fn message<'p>(&'p self, mut rest: &'p [u8], slots: &mut Slots<'_, 'p>) -> Result<(), Reject> {
        for (uses, cell) in &self.zeros {
            slots.take(uses, cell.clone(), None)?;
        }
        while !rest.is_empty() {
            let (number, wire) = decode_key(&mut rest).map_err(malformed)?;
            match self.fields.get(&number) {
                Some(entry) => entry.read(wire, &mut rest, slots)?,
                None => skip_field(wire, number, &mut rest, DecodeContext::default())
                    .map_err(malformed)?,
            }
        }
        Ok(())
    }
}

impl Entry {
    fn read<'p>(
        &'p self,
        wire: WireType,
        rest: &mut &'p [u8],
        slots: &mut Slots<'_, 'p>,
    ) -> Result<(), Reject> {
        match &self.wanted {
            Wanted::Value(uses) => {
                let cell = value(&self.kind, wire, rest)?;
                slots.take(uses, cell, None)
            }
            Wanted::Message(plan) => plan.message(delimited(wire, rest)?, slots),
            Wanted::Time(uses) => {
                let time = timestamp(delimited(wire, rest)?)?;
                slots.take(uses, Cell::Integer(time), Some(TimeUnit::Ms))
            }
            Wanted::List(uses) => each(&self.kind, wire, rest, |cell| {
                let Cell::Text(text) = cell.read_as(FieldKind::Category) else {
                    return Err(wrong(
                        "a list with fractions, expected texts or whole numbers",
                    ));
                };
                slots.add(uses, text);
                Ok(())
            }),
            Wanted::Numbers => {
                slots.has_input = true;
                each(&self.kind, wire, rest, |cell| match cell {
                    Cell::Integer(number) => slots.push(number as f32),
                    Cell::Number(number) => slots.push(number as f32),
                    _ => Err(wrong("a number beyond 64 bits with a sign")),
                })
            }
            Wanted::Map(keys) => {
                let (key, cell) = map_entry(&self.kind, delimited(wire, rest)?)?;
                match keys.get(key) {
                    Some(uses) => slots.take(uses, cell, None),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Calls `take` for an element, or for all that are packed together.
fn each<'p>(
    kind: &Kind,
    wire: WireType,
    rest: &mut &'p [u8],
    mut take: impl FnMut(Cell<'p>) -> Result<(), Reject>,
) -> Result<(), Reject> {
    let packs = !matches!(kind, Kind::String | Kind::Bytes);
    if !(packs && wire == WireType::LengthDelimited) {
        return take(value(kind, wire, rest)?);
    }
    let mut packed = delimited(wire, rest)?;
    while !packed.is_empty() {
        take(value(kind, wire_of(kind), &mut packed)?)?;
    }
    Ok(())
}

/// How values of a kind are written one by one.
fn wire_of(kind: &Kind) -> WireType {
    match kind {
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => WireType::SixtyFourBit,
        Kind::Float | Kind::Fixed32 | Kind::Sfixed32 => WireType::ThirtyTwoBit,
        Kind::String | Kind::Bytes | Kind::Message(_) => WireType::LengthDelimited,
        _ => WireType::Varint,
    }
}

fn value<'p>(kind: &Kind, wire: WireType, rest: &mut &'p [u8]) -> Result<Cell<'p>, Reject> {
    if wire != wire_of(kind) {
        return Err(Reject::new(
            RejectReason::Malformed,
            format!("a {kind:?} is written as {wire:?}"),
        ));
    }
    Ok(match kind {
        Kind::Double => Cell::Number(f64::from_le_bytes(bytes(rest)?)),
        Kind::Float => Cell::Number(f32::from_le_bytes(bytes(rest)?).into()),
        Kind::Fixed32 => Cell::Integer(u32::from_le_bytes(bytes(rest)?).into()),
        Kind::Sfixed32 => Cell::Integer(i32::from_le_bytes(bytes(rest)?).into()),
        Kind::Fixed64 => unsigned(u64::from_le_bytes(bytes(rest)?)),
        Kind::Sfixed64 => Cell::Integer(i64::from_le_bytes(bytes(rest)?)),
        Kind::Int32 => Cell::Integer((varint(rest)? as i32).into()),
        Kind::Int64 => Cell::Integer(varint(rest)? as i64),
        Kind::Uint32 => Cell::Integer((varint(rest)? as u32).into()),
        Kind::Uint64 => unsigned(varint(rest)?),
        Kind::Sint32 | Kind::Sint64 => {
            let value = varint(rest)?;
            Cell::Integer((value >> 1) as i64 ^ -((value & 1) as i64))
        }
        Kind::Bool => Cell::Bool(varint(rest)? != 0),
        Kind::Enum(names) => {
            let number = varint(rest)? as i32;
            match names.get_value(number) {
                Some(known) => Cell::Text(Cow::Owned(known.name().to_owned())),
                None => Cell::Integer(number.into()),
            }
        }
        Kind::String | Kind::Bytes => {
            let text = std::str::from_utf8(delimited(wire, rest)?);
            match text {
                Ok("") => Cell::Missing,
                Ok(text) => Cell::Text(Cow::Borrowed(text)),
                Err(_) => return Err(wrong("a text that is not UTF-8")),
            }
        }
        Kind::Message(_) => return Err(wrong("a message, expected a value")),
    })
}

/// Above i64 it is an id or a token, not a quantity; text keeps it exact.
fn unsigned<'p>(value: u64) -> Cell<'p> {
    match i64::try_from(value) {
        Ok(value) => Cell::Integer(value),
        Err(_) => Cell::Text(value.to_string().into()),
    }
}

/// Key and value of an entry of a map.
fn map_entry<'p>(kind: &Kind, mut rest: &'p [u8]) -> Result<(&'p str, Cell<'p>), Reject> {
    let Kind::Message(entry) = kind else {
        return Err(wrong("a value, expected a map"));
    };
    let value_kind = entry.map_entry_value_field().kind();
    let (mut key, mut cell) = ("", Cell::Missing);
    while !rest.is_empty() {
        let (number, wire) = decode_key(&mut rest).map_err(malformed)?;
        match number {
            1 => {
                key = std::str::from_utf8(delimited(wire, &mut rest)?)
                    .map_err(|_| wrong("a key that is not UTF-8"))?;
            }
            2 => cell = value(&value_kind, wire, &mut rest)?,
            _ => {
                skip_field(wire, number, &mut rest, DecodeContext::default()).map_err(malformed)?
            }
        }
    }
    Ok((key, cell))
}

/// Milliseconds since 1970 of a `google.protobuf.Timestamp`.
fn timestamp(mut rest: &[u8]) -> Result<i64, Reject> {
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    while !rest.is_empty() {
        match decode_key(&mut rest).map_err(malformed)? {
            (1, WireType::Varint) => seconds = varint(&mut rest)? as i64,
            (2, WireType::Varint) => nanos = varint(&mut rest)? as i64,
            (number, wire) => {
                skip_field(wire, number, &mut rest, DecodeContext::default()).map_err(malformed)?;
            }
        }
    }
    Ok(seconds
        .saturating_mul(1_000)
        .saturating_add(nanos.div_euclid(1_000_000)))
}

fn varint(rest: &mut &[u8]) -> Result<u64, Reject> {
    decode_varint(rest).map_err(malformed)
}

fn bytes<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Reject> {
    let bytes = rest.split_off(..N).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(ended)
}

fn delimited<'p>(wire: WireType, rest: &mut &'p [u8]) -> Result<&'p [u8], Reject> {
    if wire != WireType::LengthDelimited {
        return Err(Reject::new(
            RejectReason::Malformed,
            format!("a message or a text is written as {wire:?}"),
        ));
    }
    let length = usize::try_from(varint(rest)?).map_err(|_| ended())?;
    rest.split_off(..length).ok_or_else(ended)
}

fn malformed(error: prost::DecodeError) -> Reject {
    Reject::new(RejectReason::Malformed, error.to_string())
}

fn ended() -> Reject {
    Reject::new(RejectReason::Malformed, "the payload ends within a value")
}

fn wrong(found: &str) -> Reject {
    Reject::new(RejectReason::WrongType, format!("the event has {found}"))
}
