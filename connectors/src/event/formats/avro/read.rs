//! Runs a program over a payload.

use std::{borrow::Cow, collections::HashMap};

use super::{
    super::Format,
    bytes::Bytes,
    program::{Program, Step},
    types::{FieldType, Type},
};
use crate::event::{Cell, Reject, TimeUnit, collector::Collector};

struct Run<'r, 'a, 'p> {
    program: &'p Program,
    bytes: Bytes<'p>,
    event: &'r mut Collector<'a, 'p>,
}

impl Format for Program {
    fn read<'p>(&'p self, payload: &'p [u8], event: &mut Collector<'_, 'p>) -> Result<(), Reject> {
        for (uses, cell) in &self.defaults {
            event.put(uses, cell.clone(), None)?;
        }
        let mut run = Run {
            program: self,
            bytes: Bytes(payload),
            event,
        };
        run.step(&self.root, 1)?;
        match run.bytes.0.len() {
            0 => Ok(()),
            rest => Err(Reject::malformed(format!(
                "{rest} bytes are left after the event"
            ))),
        }
    }
}

impl<'p> Run<'_, '_, 'p> {
    fn step(&mut self, step: &'p Step, depth: usize) -> Result<(), Reject> {
        self.check_depth(depth)?;
        match step {
            Step::Skip(kind) => self.skip(kind, depth),
            Step::Value(kind, uses) => {
                let (cell, unit) = self.cell(kind, depth)?;
                self.event.put(uses, cell, unit).map(drop)
            }
            Step::Numbers(items) => self.numbers(items),
            Step::Record(steps) => steps.iter().try_for_each(|step| self.step(step, depth + 1)),
            Step::Union(steps) => {
                let branch = self.bytes.index(steps.len())?;
                self.step(&steps[branch], depth)
            }
            Step::Wrong(problem) => Err(Reject::wrong_type(problem.clone())),
            Step::Map(steps, values) => self.blocks(true, false, |run| {
                let key = run.bytes.text()?;
                run.keyed(steps, key, values, depth + 1)
            }),
            Step::Array(steps, items) => {
                let mut number = 0_usize;
                self.blocks(!self.is_empty(items, 0), false, |run| {
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
        let max_depth = self.program.max_depth;
        if depth > max_depth {
            return Err(Reject::too_deep(max_depth));
        }
        Ok(())
    }

    /// Calls `each` for every element of an array or a map. Elements without bytes are left out: there may be any number of
    /// them. Blocks whose size is told can be skipped as a whole.
    fn blocks(
        &mut self,
        has_bytes: bool,
        skips: bool,
        mut each: impl FnMut(&mut Self) -> Result<(), Reject>,
    ) -> Result<(), Reject> {
        loop {
            let count = match self.bytes.block()? {
                (0, _) => return Ok(()),
                (_, Some(size)) if skips => {
                    self.bytes.take(size)?;
                    continue;
                }
                (count, _) => count,
            };
            if !has_bytes {
                continue;
            }
            if count > self.bytes.0.len() as u64 {
                return Err(Reject::malformed(format!(
                    "an array announces {count} elements"
                )));
            }
            for _ in 0..count {
                each(self)?;
            }
        }
    }

    /// Whether values of this type take no bytes.
    fn is_empty(&self, kind: &Type, depth: usize) -> bool {
        match self.program.types.get(kind) {
            Type::Null | Type::Fixed(0) => true,
            Type::Record(fields) => {
                depth < self.program.max_depth
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
            Type::Array(items) => {
                let has_bytes = !self.is_empty(items, 0);
                self.blocks(has_bytes, true, |run| run.skip(items, depth + 1))
            }
            Type::Map(values) => self.blocks(true, true, |run| {
                run.bytes.bytes()?;
                run.skip(values, depth + 1)
            }),
            Type::Named(_) => Err(Reject::malformed("a type that is only a name")),
            single => self.cell(single, depth).map(drop),
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
        self.blocks(!self.is_empty(items, 0), false, |run| {
            let (cell, _) = run.cell(items, depth + 1)?;
            cell.add_to(&mut texts).map_err(Reject::wrong_type)
        })?;
        Ok(Cell::Texts(texts))
    }

    fn numbers(&mut self, items: &'p Type) -> Result<(), Reject> {
        self.event.begin_input();
        self.blocks(true, false, |run| {
            let number = match items {
                Type::Float => run.bytes.float()?,
                Type::Double => run.bytes.double()? as f32,
                _ => run.bytes.long()? as f32,
            };
            run.event.number(number)
        })
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
    Reject::wrong_type(format!("the event has {found}"))
}
