//! Reads JSON events in one pass. Builds no values that are not used, and stops at the first number beyond the width.

mod ignored;

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

use self::ignored::Ignored;
use super::{
    Cell, EventSettings, Reject, RejectReason,
    decoder::{Header, checked_id},
    layout::{DenseLayout, FieldLayout, Layout},
};

/// Keys of an event's object, and how deep it may nest.
#[derive(Debug, Clone)]
pub(super) struct JsonNames {
    id: String,
    time: String,
    input: &'static str,
    flat: bool,
    max_depth: usize,
}

enum Sink<'a, 'de> {
    Dense(&'a DenseLayout, &'a mut Vec<f32>),
    Fields(&'a FieldLayout, Vec<Option<Cell<'de>>>),
}

/// A pass over one event. serde's errors carry only text, so `reject` keeps the typed reason.
struct Pass<'a, 'de> {
    names: &'a JsonNames,
    sink: Sink<'a, 'de>,
    header: Header,
    has_input: bool,
    reject: Option<Reject>,
}

/// Borrows from the payload unless the text has escapes. serde borrows a plain `Cow` only with this attribute.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

// === impl JsonNames ===

impl JsonNames {
    pub(super) fn new(settings: &EventSettings, layout: &Layout) -> Self {
        Self {
            id: settings.id_field.clone(),
            time: settings.time_field.clone(),
            input: layout.kind().as_str(),
            flat: settings.flat,
            max_depth: settings.max_depth,
        }
    }
}

/// Appends the numbers to `values`; `None` if the event has no input. After an error the caller truncates `values`.
pub(super) fn read_dense(
    payload: &[u8],
    names: &JsonNames,
    layout: &DenseLayout,
    values: &mut Vec<f32>,
) -> Result<Option<Header>, Reject> {
    let pass = Pass::new(names, Sink::Dense(layout, values)).run(payload)?;
    Ok(pass.has_input.then_some(pass.header))
}

/// Returns the fields in the schema's order; `None` if the event has no input.
pub(super) fn read_fields<'p>(
    payload: &'p [u8],
    names: &JsonNames,
    layout: &FieldLayout,
) -> Result<Option<(Header, Vec<Cell<'p>>)>, Reject> {
    let cells = vec![None; layout.len()];
    let pass = Pass::new(names, Sink::Fields(layout, cells)).run(payload)?;
    let Sink::Fields(_, cells) = pass.sink else {
        unreachable!("a pass keeps its sink");
    };
    let cells = cells.into_iter().map(|cell| cell.unwrap_or(Cell::Missing));
    let header = pass.header;
    Ok(pass.has_input.then(|| (header, cells.collect())))
}

// === impl Pass ===

impl<'a, 'de> Pass<'a, 'de> {
    fn new(names: &'a JsonNames, sink: Sink<'a, 'de>) -> Self {
        Self {
            names,
            sink,
            header: Header::default(),
            // A flat event has no key for its input: the whole object is the input.
            has_input: names.flat,
            reject: None,
        }
    }

    fn run(mut self, payload: &'de [u8]) -> Result<Self, Reject> {
        let mut json = serde_json::Deserializer::from_slice(payload);
        let read = json.deserialize_map(&mut self).and_then(|()| json.end());
        match (read, self.reject.take()) {
            (Ok(()), _) => Ok(self),
            (Err(_), Some(reject)) => Err(reject),
            (Err(error), None) => Err(error.into()),
        }
    }

    fn refuse<E: Error>(&mut self, reject: Reject) -> E {
        self.reject = Some(reject);
        E::custom("refused")
    }

    fn set_id<E: Error>(&mut self, cell: &Cell<'_>) -> Result<(), E> {
        if self.header.id.is_some() {
            let names = self.names;
            return Err(self.twice(&names.id));
        }
        let id = match cell {
            Cell::Missing => return Ok(()),
            Cell::Integer(_) | Cell::Text(_) => checked_id(&cell.to_string()),
            Cell::Bool(_) | Cell::Number(_) => Err(Reject::new(
                RejectReason::WrongType,
                format!(
                    "`{}` is {cell}, expected a text or a whole number",
                    self.names.id
                ),
            )),
        };
        self.header.id = id.map_err(|reject| self.refuse(reject))?;
        Ok(())
    }

    fn set_time<E: Error>(&mut self, cell: &Cell<'_>) -> Result<(), E> {
        if self.header.time_ms.is_some() {
            let names = self.names;
            return Err(self.twice(&names.time));
        }
        match cell {
            Cell::Missing => Ok(()),
            Cell::Integer(time_ms) => {
                self.header.time_ms = Some(*time_ms);
                Ok(())
            }
            _ => Err(self.refuse(Reject::new(
                RejectReason::WrongType,
                format!(
                    "`{}` is {cell}, expected milliseconds since 1970, a whole number",
                    self.names.time
                ),
            ))),
        }
    }

    /// Stores the value of the field at this position of the schema; a second value is an error.
    fn set_field<E: Error>(
        &mut self,
        position: usize,
        name: &str,
        cell: Cell<'de>,
    ) -> Result<(), E> {
        let Sink::Fields(_, cells) = &mut self.sink else {
            return Ok(());
        };
        match cells[position].replace(cell) {
            None => Ok(()),
            Some(_) => Err(self.twice(name)),
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        match &self.sink {
            Sink::Dense(..) => None,
            Sink::Fields(layout, _) => layout.position(name),
        }
    }

    fn twice<E: Error>(&mut self, name: &str) -> E {
        let detail = format!("`{name}` comes twice, expected it once");
        self.refuse(Reject::new(RejectReason::Malformed, detail))
    }
}

/// Visits the event's outermost object.
impl<'de> Visitor<'de> for &mut Pass<'_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let names = self.names;
        while let Some(Text(key)) = map.next_key()? {
            let position = if names.flat {
                self.position(&key)
            } else {
                None
            };
            let is_id = key == names.id;
            let is_time = key == names.time;
            if is_id || is_time || position.is_some() {
                let cell: Cell<'de> = map.next_value()?;
                if is_id {
                    self.set_id(&cell)?;
                }
                if is_time {
                    self.set_time(&cell)?;
                }
                // In a flat event, the id or the time may also be one of the model's fields.
                if let Some(position) = position {
                    self.set_field(position, &key, cell)?;
                }
            } else if key == names.input && !names.flat {
                if std::mem::replace(&mut self.has_input, true) {
                    return Err(self.twice(names.input));
                }
                map.next_value_seed(InputSeed(self))?;
            } else {
                map.next_value_seed(Ignored {
                    pass: self,
                    depth: 2,
                })?;
            }
        }
        Ok(())
    }
}

/// Reads the value of the input's key.
struct InputSeed<'p, 'a, 'de>(&'p mut Pass<'a, 'de>);

impl<'de> DeserializeSeed<'de> for InputSeed<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0.sink {
            Sink::Dense(..) => deserializer.deserialize_seq(self),
            Sink::Fields(..) => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for InputSeed<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.names.input;
        match self.0.sink {
            Sink::Dense(layout, _) => write!(formatter, "`{name}`, {} numbers", layout.width),
            Sink::Fields(..) => write!(formatter, "`{name}`, an object"),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<(), A::Error> {
        let Sink::Dense(layout, values) = &mut self.0.sink else {
            return Err(A::Error::custom("expected an object"));
        };
        let mut room = layout.width;
        while let Some(number) = numbers.next_element()? {
            if room == 0 {
                let found = format!("more than {}", layout.width);
                let reject = layout.wrong_width(found);
                return Err(self.0.refuse(reject));
            }
            room -= 1;
            values.push(number);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let pass = self.0;
        while let Some(Text(name)) = map.next_key()? {
            match pass.position(&name) {
                Some(position) => {
                    let cell = map.next_value()?;
                    pass.set_field(position, &name, cell)?;
                }
                None => map.next_value_seed(Ignored { pass, depth: 3 })?,
            }
        }
        Ok(())
    }
}
