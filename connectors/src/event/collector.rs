//! Collects what an event has of what is wanted: id, time, and a vector or named fields. Readers of all formats fill it.

use super::{
    Cell, EventSettings, Reject, header, layout::DenseLayout, places::Use, settings::TimeUnit,
};

/// Id and time that the event itself carries.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) id: Option<Box<str>>,
    pub(super) time_ms: Option<i64>,
}

/// Names of id and time for messages, and the unit of times.
#[derive(Debug, Clone, Default)]
pub(super) struct HeaderNames {
    id: String,
    time: String,
    unit: TimeUnit,
}

/// What one event has given so far.
pub(super) struct Collector<'a, 'p> {
    names: &'a HeaderNames,
    pub(super) header: Header,
    /// Whether the input was there.
    pub(super) has_input: bool,
    input: Input<'a, 'p>,
}

enum Input<'a, 'p> {
    Vector {
        layout: DenseLayout,
        /// Rows of other events, then the numbers of this one.
        values: &'a mut Vec<f32>,
        /// Where the numbers of this event begin.
        start: usize,
    },
    /// In the schema's order; `None` for a field that the event does not have.
    Fields(Vec<Option<Cell<'p>>>),
}

impl HeaderNames {
    pub(super) fn new(settings: &EventSettings) -> Self {
        Self {
            id: settings.id_field.clone(),
            time: settings.time_field.clone(),
            unit: settings.time_unit,
        }
    }
}

impl<'a, 'p> Collector<'a, 'p> {
    /// Appends the numbers of a vector to `values`, straight from the payload. After an error the caller truncates them.
    pub(super) fn vector(
        names: &'a HeaderNames,
        layout: DenseLayout,
        values: &'a mut Vec<f32>,
    ) -> Self {
        let start = values.len();
        Self::new(
            names,
            Input::Vector {
                layout,
                values,
                start,
            },
        )
    }

    /// Collects this many fields.
    pub(super) fn fields(names: &'a HeaderNames, count: usize) -> Self {
        Self::new(names, Input::Fields(vec![None; count]))
    }

    fn new(names: &'a HeaderNames, input: Input<'a, 'p>) -> Self {
        Self {
            names,
            header: Header::default(),
            has_input: false,
            input,
        }
    }

    /// Uses a value for everything that it is for, and says whether one of them had a value before; the last one counts.
    /// `unit` is that of a time whose type has one.
    pub(super) fn put(
        &mut self,
        uses: &[Use],
        cell: Cell<'p>,
        unit: Option<TimeUnit>,
    ) -> Result<bool, Reject> {
        let Some((last, others)) = uses.split_last() else {
            return Ok(false);
        };
        let mut again = false;
        for used in others {
            again |= self.put_one(*used, cell.clone(), unit)?;
        }
        Ok(again | self.put_one(*last, cell, unit)?)
    }

    fn put_one(
        &mut self,
        used: Use,
        cell: Cell<'p>,
        unit: Option<TimeUnit>,
    ) -> Result<bool, Reject> {
        Ok(match used {
            Use::Id => {
                let id = header::id(&self.names.id, &cell)?;
                std::mem::replace(&mut self.header.id, id).is_some()
            }
            Use::Time => {
                let unit = unit.unwrap_or(self.names.unit);
                let time_ms = header::time_ms(&self.names.time, &cell, unit)?;
                std::mem::replace(&mut self.header.time_ms, time_ms).is_some()
            }
            Use::Field(position) => {
                self.has_input = true;
                match &mut self.input {
                    Input::Fields(cells) => cells[position].replace(cell).is_some(),
                    Input::Vector { .. } => false,
                }
            }
        })
    }

    /// Adds an element to the lists that it is for.
    #[cfg(feature = "schemas")]
    pub(super) fn add(&mut self, uses: &[Use], element: &Cell<'p>) -> Result<(), Reject> {
        for used in uses {
            let (Use::Field(position), Input::Fields(cells)) = (used, &mut self.input) else {
                continue;
            };
            self.has_input = true;
            let cell = &mut cells[*position];
            if !matches!(cell, Some(Cell::Texts(_))) {
                *cell = Some(Cell::Texts(Vec::new()));
            }
            if let Some(Cell::Texts(texts)) = cell {
                element.clone().add_to(texts).map_err(Reject::wrong_type)?;
            }
        }
        Ok(())
    }

    /// Notes that the input is there, and says whether it was there before.
    pub(super) fn begin_input(&mut self) -> bool {
        std::mem::replace(&mut self.has_input, true)
    }

    /// Whether named fields are wanted, not a vector.
    #[cfg(feature = "schemas")]
    pub(super) fn wants_fields(&self) -> bool {
        matches!(self.input, Input::Fields(_))
    }

    /// Appends a number of the vector. A vector that is too long ends with the first number beyond its width.
    pub(super) fn number(&mut self, number: f32) -> Result<(), Reject> {
        if let Input::Vector {
            layout,
            values,
            start,
        } = &mut self.input
        {
            if values.len() - *start == layout.width {
                return Err(layout.wrong_width(format!("more than {}", layout.width)));
            }
            values.push(number);
        }
        Ok(())
    }

    /// Appends numbers that the payload has one after the other, as little-endian words.
    pub(super) fn words(&mut self, words: &[[u8; 4]]) {
        self.numbers(words.iter().map(|word| f32::from_le_bytes(*word)));
    }

    /// Appends numbers of which there are not more than the payload has bytes; the layout checks how many.
    pub(super) fn numbers(&mut self, numbers: impl Iterator<Item = f32>) {
        self.has_input = true;
        if let Input::Vector { values, .. } = &mut self.input {
            values.extend(numbers);
        }
    }

    /// What a vector has to be, for messages.
    pub(super) fn expected(&self) -> String {
        match &self.input {
            Input::Vector { layout, .. } => format!("`{}`, {} numbers", layout.kind, layout.width),
            Input::Fields(_) => "named fields".into(),
        }
    }

    /// The fields in the schema's order; none for a vector.
    pub(super) fn cells(self) -> Vec<Option<Cell<'p>>> {
        match self.input {
            Input::Fields(cells) => cells,
            Input::Vector { .. } => Vec::new(),
        }
    }
}
