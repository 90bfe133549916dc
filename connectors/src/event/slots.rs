//! Collects the values of one event that are used: id, time, fields or a vector.

use std::borrow::Cow;

use super::{Cell, Reject, RejectReason, decoder::Header, header, places::Use, settings::TimeUnit};

/// Most texts of a list that are used, as the model uses no more words of a text.
const MOST_TEXTS: usize = 4_096;

/// Names of id and time for messages, and the unit of times.
#[derive(Debug, Clone)]
pub(super) struct HeaderNames {
    pub(super) id: String,
    pub(super) time: String,
    pub(super) unit: TimeUnit,
}

/// What one event has given so far.
pub(super) struct Slots<'a, 'p> {
    names: &'a HeaderNames,
    /// Fields in the schema's order.
    pub(super) cells: Vec<Cell<'p>>,
    /// Numbers of a vector.
    pub(super) values: Vec<f32>,
    /// Most numbers that a vector may have.
    width: usize,
    pub(super) header: Header,
    /// Whether the input was there.
    pub(super) has_input: bool,
}

impl<'a, 'p> Slots<'a, 'p> {
    pub(super) fn new(names: &'a HeaderNames, fields: usize, width: usize) -> Self {
        Self {
            names,
            cells: vec![Cell::Missing; fields],
            values: Vec::with_capacity(width),
            width,
            header: Header::default(),
            has_input: false,
        }
    }

    /// Uses a value for everything that it is for. A later value of the same place counts, as in Protobuf. `unit` is
    /// that of a time whose type says so.
    pub(super) fn take(
        &mut self,
        uses: &[Use],
        cell: Cell<'p>,
        unit: Option<TimeUnit>,
    ) -> Result<(), Reject> {
        for used in uses {
            match used {
                Use::Id => self.header.id = header::id(&self.names.id, &cell)?,
                Use::Time => {
                    let unit = unit.unwrap_or(self.names.unit);
                    self.header.time_ms = header::time_ms(&self.names.time, &cell, unit)?;
                }
                Use::Field(position) => {
                    self.has_input = true;
                    self.cells[*position] = cell.clone();
                }
            }
        }
        Ok(())
    }

    /// Adds a text to lists.
    pub(super) fn add(&mut self, uses: &[Use], text: Cow<'p, str>) {
        for used in uses {
            let Use::Field(position) = used else { continue };
            self.has_input = true;
            match &mut self.cells[*position] {
                Cell::Texts(texts) if texts.len() >= MOST_TEXTS => (),
                Cell::Texts(texts) => texts.push(text.clone()),
                other => *other = Cell::Texts(vec![text.clone()]),
            }
        }
    }

    /// Appends a number of the vector.
    pub(super) fn push(&mut self, number: f32) -> Result<(), Reject> {
        if self.values.len() == self.width {
            return Err(Reject::new(
                RejectReason::WrongWidth,
                format!("the vector has more than {} numbers", self.width),
            ));
        }
        self.values.push(number);
        Ok(())
    }
}
