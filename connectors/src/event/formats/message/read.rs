//! Runs a plan over a payload.

use std::borrow::Cow;

use prost::{
    Message,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use prost_reflect::Kind;

use super::{
    super::{
        Format,
        bytes::{array, ended, take, zigzag},
    },
    Entry, Plan, Wanted,
};
use crate::event::{Cell, Reject, TimeUnit, collector::Collector};

impl Format for Plan {
    fn read<'p>(&'p self, payload: &'p [u8], event: &mut Collector<'_, 'p>) -> Result<(), Reject> {
        // A message may be all zeros, of which nothing is written.
        event.has_input = event.wants_fields();
        self.message(payload, event)
    }
}

impl Plan {
    fn message<'p>(
        &'p self,
        mut rest: &'p [u8],
        event: &mut Collector<'_, 'p>,
    ) -> Result<(), Reject> {
        for (uses, cell) in &self.zeros {
            event.put(uses, cell.clone(), None)?;
        }
        while !rest.is_empty() {
            let (number, wire) = decode_key(&mut rest)?;
            match self.fields.get(&number) {
                Some(entry) => entry.read(wire, &mut rest, event)?,
                None => skip_field(wire, number, &mut rest, DecodeContext::default())?,
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
        event: &mut Collector<'_, 'p>,
    ) -> Result<(), Reject> {
        match &self.wanted {
            Wanted::Value(uses) => {
                event.put(uses, value(&self.kind, wire, rest)?, None)?;
            }
            Wanted::Message(plan) => plan.message(delimited(wire, rest)?, event)?,
            Wanted::Time(uses) => {
                let time = timestamp(delimited(wire, rest)?)?;
                event.put(uses, Cell::Integer(time), Some(TimeUnit::Ms))?;
            }
            Wanted::List(uses) => {
                each(&self.kind, wire, rest, |cell| event.add(uses, &cell))?;
            }
            Wanted::Numbers => {
                event.begin_input();
                each(&self.kind, wire, rest, |cell| match cell {
                    Cell::Integer(number) => event.number(number as f32),
                    Cell::Number(number) => event.number(number as f32),
                    _ => Err(wrong("a number beyond 64 bits with a sign")),
                })?;
            }
            Wanted::Map(keys) => {
                let (key, cell) = map_entry(&self.kind, delimited(wire, rest)?)?;
                if let Some(uses) = keys.get(key) {
                    event.put(uses, cell, None)?;
                }
            }
        }
        Ok(())
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
        return Err(Reject::malformed(format!(
            "a {kind:?} is written as {wire:?}"
        )));
    }
    Ok(match kind {
        Kind::Double => Cell::Number(f64::from_le_bytes(array(rest)?)),
        Kind::Float => Cell::Number(f32::from_le_bytes(array(rest)?).into()),
        Kind::Fixed32 => Cell::Integer(u32::from_le_bytes(array(rest)?).into()),
        Kind::Sfixed32 => Cell::Integer(i32::from_le_bytes(array(rest)?).into()),
        Kind::Fixed64 => unsigned(u64::from_le_bytes(array(rest)?)),
        Kind::Sfixed64 => Cell::Integer(i64::from_le_bytes(array(rest)?)),
        Kind::Int32 => Cell::Integer((decode_varint(rest)? as i32).into()),
        Kind::Int64 => Cell::Integer(decode_varint(rest)? as i64),
        Kind::Uint32 => Cell::Integer((decode_varint(rest)? as u32).into()),
        Kind::Uint64 => unsigned(decode_varint(rest)?),
        Kind::Sint32 | Kind::Sint64 => Cell::Integer(zigzag(decode_varint(rest)?)),
        Kind::Bool => Cell::Bool(decode_varint(rest)? != 0),
        Kind::Enum(names) => {
            let number = decode_varint(rest)? as i32;
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
        let (number, wire) = decode_key(&mut rest)?;
        match number {
            1 => {
                key = std::str::from_utf8(delimited(wire, &mut rest)?)
                    .map_err(|_| wrong("a key that is not UTF-8"))?;
            }
            2 => cell = value(&value_kind, wire, &mut rest)?,
            _ => skip_field(wire, number, &mut rest, DecodeContext::default())?,
        }
    }
    Ok((key, cell))
}

/// Milliseconds since 1970 of a `google.protobuf.Timestamp`.
fn timestamp(message: &[u8]) -> Result<i64, Reject> {
    let time = prost_types::Timestamp::decode(message)?;
    let ms = i64::from(time.nanos).div_euclid(1_000_000);
    Ok(time.seconds.saturating_mul(1_000).saturating_add(ms))
}

fn delimited<'p>(wire: WireType, rest: &mut &'p [u8]) -> Result<&'p [u8], Reject> {
    if wire != WireType::LengthDelimited {
        return Err(Reject::malformed(format!(
            "a message or a text is written as {wire:?}"
        )));
    }
    let length = usize::try_from(decode_varint(rest)?).map_err(|_| ended())?;
    take(rest, length)
}

fn wrong(found: &str) -> Reject {
    Reject::wrong_type(format!("the event has {found}"))
}
