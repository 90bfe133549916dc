//! Runs a program over a payload.

use std::{borrow::Cow, collections::HashMap};

use ostar_bundle::fields::FieldKind;

use super::{
    bytes::{Bytes, malformed},
    program::{Program, Step},
    types::{FieldType, Type},
};
use crate::event::{
    Cell, Reject, RejectReason,
    settings::TimeUnit,
    slots::{HeaderNames, Slots},
};

/// Most elements of a list that are used, as the model uses no more words of a text; the rest is skipped.
const MOST_ELEMENTS: usize = 4_096;

/// How much an event may hold.
#[derive(Debug, Clone, Copy)]
pub(in crate::event) struct Bounds {
    /// Fields of the bundle.
    pub(in crate::event) fields: usize,
    /// Numbers of its vector.
    pub(in crate::event) width: usize,
    pub(in crate::event) depth: usize,
}

struct Run<'a, 'p> {
    program: &'p Program,
    bytes: Bytes<'p>,
    slots: Slots<'a, 'p>,
    max_depth: usize,
}

impl Program {
    pub(in crate::event) fn read<'a, 'p>(
        &'p self,
        payload: &'p [u8],
        names: &'a HeaderNames,
        bounds: Bounds,
    ) -> Result<Slots<'a, 'p>, Reject> {
        let mut slots = Slots::new(names, bounds.fields, bounds.width);
        for (uses, cell) in &self.defaults {
            slots.take(uses, cell.clone(), None)?;
        }
        let mut run = Run {
            program: self,
            bytes: Bytes(payload),
            slots,
            max_depth: bounds.depth,
        };
        run.step(&self.root, 1)?;
        match run.bytes.0.len() {
            0 => Ok(run.slots),
            rest => Err(malformed(format!("{rest} bytes are left after the event"))),
        }
    }
}

impl<'p> Run<'_, 'p> {
    fn step(&mut self, step: &'p Step, depth: usize) -> Result<(), Reject> {
        self.check_depth(depth)?;
        match step {
            Step::Skip(kind) => self.skip(kind, depth),
            Step::Value(kind, uses) => {
                let (cell, unit) = self.cell(kind, depth)?;
                self.slots.take(uses, cell, unit)
            }
            Step::Numbers(kind) => self.numbers(kind),
            Step::Record(steps) => steps.iter().try_for_each(|step| self.step(step, depth + 1)),
            Step::Union(steps) => {
                let branch = self.bytes.index(steps.len())?;
                self.step(&steps[branch], depth)
            }
            Step::Wrong(problem) => Err(Reject::new(RejectReason::WrongType, problem.clone())),
            Step::Map(steps, values) => self.blocks(values, |run| {
                let key = run.bytes.text()?;
                run.keyed(steps, key, values, depth + 1)
            }),
            Step::Array(steps, items) => {
                let mut number = 0_usize;
                self.blocks(items, |run| {
                    number += 1;
                    run.keyed(steps, &(number - 1).to_string(), items, depth + 1)
                })
            }
        }
    }

    fn keyed(
        &mut self,
        steps: &'p HashMap<String, Step>,
        key: &str,
        kind: &'p Type,
        depth: usize,
    ) -> Result<(), Reject> {
        match steps.get(key) {
            Some(step) => self.step(step, depth),
            None => self.skip(kind, depth),
        }
    }

    fn check_depth(&self, depth: usize) -> Result<(), Reject> {
        if depth > self.max_depth {
            return Err(Reject::new(
                RejectReason::TooDeep,
                format!("the event is nested deeper than {} levels", self.max_depth),
            ));
        }
        Ok(())
    }

    /// Calls `each` for every element of an array or a map.
    fn blocks(
        &mut self,
        items: &Type,
        mut each: impl FnMut(&mut Self) -> Result<(), Reject>,
    ) -> Result<(), Reject> {
        loop {
            let (count, _) = self.bytes.block()?;
            if count == 0 {
                return Ok(());
            }
            // Elements of no bytes could be any number; others cannot be more than there are bytes.
            if count > self.bytes.0.len() as u64 && !self.is_empty(items, 0) {
                return Err(malformed(format!("an array announces {count} elements")));
            }
            for _ in 0..count.min(self.bytes.0.len() as u64 + MOST_ELEMENTS as u64) {
                each(self)?;
            }
        }
    }

    /// Whether values of this type take no bytes.
    fn is_empty(&self, kind: &Type, depth: usize) -> bool {
        match self.program.types.get(kind) {
            Type::Null | Type::Fixed(0) => true,
            Type::Record(fields) => {
                depth < self.max_depth
                    && fields
                        .iter()
                        .all(|field| self.is_empty(&field.kind, depth + 1))
            }
            _ => false,
        }
    }

    fn skip(&mut self, kind: &'p Type, depth: usize) -> Result<(), Reject> {
        self.check_depth(depth)?;
        let program = self.program;
        match program.types.get(kind) {
            Type::Null => Ok(()),
            Type::Boolean => self.bytes.boolean().map(drop),
            Type::Int | Type::Long | Type::Time(_) => self.bytes.long().map(drop),
            Type::Enum(symbols) => self.bytes.index(symbols.len()).map(drop),
            Type::Float => self.bytes.take(4).map(drop),
            Type::Double => self.bytes.take(8).map(drop),
            Type::Bytes | Type::Text | Type::Decimal(_, None) => self.bytes.bytes().map(drop),
            Type::Fixed(size) | Type::Decimal(_, Some(size)) => self.bytes.take(*size).map(drop),
            Type::Record(fields) => {
                let skip = |field: &'p FieldType| self.skip(&field.kind, depth + 1);
                fields.iter().try_for_each(skip)
            }
            Type::Union(branches) => {
                let branch = self.bytes.index(branches.len())?;
                self.skip(&branches[branch], depth)
            }
            Type::Array(items) => self.skip_blocks(items, false, depth),
            Type::Map(values) => self.skip_blocks(values, true, depth),
            Type::Named(_) => Err(malformed("a type that is only a name")),
        }
    }

    /// Skips blocks as a whole where their size is told.
    fn skip_blocks(&mut self, items: &'p Type, has_keys: bool, depth: usize) -> Result<(), Reject> {
        loop {
            let (count, size) = self.bytes.block()?;
            if count == 0 {
                return Ok(());
            }
            if let Some(size) = size {
                self.bytes.take(size)?;
                continue;
            }
            if !has_keys && self.is_empty(items, 0) {
                continue;
            }
            if count > self.bytes.0.len() as u64 {
                return Err(malformed(format!("an array announces {count} elements")));
            }
            for _ in 0..count {
                if has_keys {
                    self.bytes.bytes()?;
                }
                self.skip(items, depth + 1)?;
            }
        }
    }

    /// A value, and the unit of one whose type is a time.
    fn cell(
        &mut self,
        kind: &'p Type,
        depth: usize,
    ) -> Result<(Cell<'p>, Option<TimeUnit>), Reject> {
        let program = self.program;
        let cell = match program.types.get(kind) {
            Type::Null => Cell::Missing,
            Type::Boolean => Cell::Bool(self.bytes.boolean()?),
            Type::Int => Cell::Integer(self.bytes.int()?),
            Type::Long => Cell::Integer(self.bytes.long()?),
            Type::Float => Cell::Number(self.bytes.float()?.into()),
            Type::Double => Cell::Number(self.bytes.double()?),
            Type::Text => Cell::Text(Cow::Borrowed(self.bytes.text()?)),
            Type::Bytes => text(self.bytes.bytes()?)?,
            Type::Fixed(size) => text(self.bytes.take(*size)?)?,
            Type::Enum(symbols) => {
                let symbol = self.bytes.index(symbols.len())?;
                Cell::Text(Cow::Borrowed(&symbols[symbol]))
            }
            Type::Decimal(scale, size) => {
                let digits = match size {
                    Some(size) => self.bytes.take(*size)?,
                    None => self.bytes.bytes()?,
                };
                Cell::Number(decimal(digits, *scale))
            }
            Type::Time(unit) => {
                let time = unit.to_ms(self.bytes.long()?);
                return Ok((Cell::Integer(time), Some(TimeUnit::Ms)));
            }
            Type::Union(branches) => {
                let branch = self.bytes.index(branches.len())?;
                return self.cell(&branches[branch], depth);
            }
            Type::Array(items) => self.list(items, depth)?,
            other @ (Type::Record(_) | Type::Map(_) | Type::Named(_)) => {
                let found = if matches!(other, Type::Map(_)) {
                    "a map"
                } else {
                    "a record"
                };
                return Err(wrong(format!("{found}, expected a single value")));
            }
        };
        Ok((cell, None))
    }

    /// A list of categories.
    fn list(&mut self, items: &'p Type, depth: usize) -> Result<Cell<'p>, Reject> {
        self.check_depth(depth + 1)?;
        let mut texts = Vec::new();
        self.blocks(items, |run| {
            if texts.len() == MOST_ELEMENTS {
                return run.skip(items, depth + 1);
            }
            match run.cell(items, depth + 1)?.0.read_as(FieldKind::Category) {
                Cell::Missing => Ok(()),
                Cell::Text(text) => {
                    texts.push(text);
                    Ok(())
                }
                other => Err(wrong(format!(
                    "a list with {other}, expected texts or whole numbers"
                ))),
            }
        })?;
        Ok(Cell::Texts(texts))
    }

    fn numbers(&mut self, kind: &'p Type) -> Result<(), Reject> {
        let program = self.program;
        match program.types.get(kind) {
            Type::Null => Ok(()),
            Type::Union(branches) => {
                let branch = self.bytes.index(branches.len())?;
                self.numbers(&branches[branch])
            }
            Type::Array(items) => {
                self.slots.has_input = true;
                self.blocks(items, |run| {
                    let number = match program.types.get(items) {
                        Type::Int | Type::Long => run.bytes.long()? as f32,
                        Type::Float => run.bytes.float()?,
                        Type::Double => run.bytes.double()? as f32,
                        _ => return Err(wrong("a list without numbers".into())),
                    };
                    run.slots.push(number)
                })
            }
            _ => Err(wrong("a value, expected an array of numbers".into())),
        }
    }
}

fn text(bytes: &[u8]) -> Result<Cell<'_>, Reject> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cell::Text(Cow::Borrowed(text))),
        Err(_) => Err(wrong("bytes that are no text".into())),
    }
}

/// Big-endian two's complement digits over a power of ten.
fn decimal(digits: &[u8], scale: i32) -> f64 {
    let negative = digits.first().is_some_and(|first| *first >= 0x80);
    let start = if negative { -1.0 } else { 0.0 };
    let unscaled = digits
        .iter()
        .fold(start, |value: f64, byte| 256.0 * value + f64::from(*byte));
    unscaled / 10_f64.powi(scale)
}

fn wrong(found: String) -> Reject {
    Reject::new(RejectReason::WrongType, format!("the event has {found}"))
}
