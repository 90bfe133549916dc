//! Reads JSON events in one pass. Builds no values that are not used, and stops at the first number beyond the width.

mod ignored;

use std::{borrow::Cow, collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};

use self::ignored::Ignored;
use super::{
    Cell, EventSettings, Reject,
    decoder::Header,
    header,
    layout::{DenseLayout, FieldLayout, Layout, UnsuitableSettings},
    places::{self, Node, Use},
    settings::TimeUnit,
};

/// Where the values of an event's object are, and how deep it may nest.
#[derive(Debug, Clone)]
pub(super) struct JsonNames {
    id: String,
    time: String,
    time_unit: TimeUnit,
    input: &'static str,
    /// Whether the input has a key of its own; else the whole object is the input.
    has_key: bool,
    root: Node,
    max_depth: usize,
}

enum Sink<'a, 'de> {
    Dense(&'a DenseLayout, &'a mut Vec<f32>),
    Fields(Vec<Option<Cell<'de>>>),
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
    pub(super) fn new(
        settings: &EventSettings,
        layout: &Layout,
    ) -> Result<Self, UnsuitableSettings> {
        Ok(Self {
            id: settings.id_field.clone(),
            time: settings.time_field.clone(),
            time_unit: settings.time_unit,
            input: layout.kind().as_str(),
            has_key: !settings.is_flat() || matches!(layout, Layout::Dense(_)),
            root: places::tree(settings, layout)?,
            max_depth: settings.max_depth,
        })
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
    let pass = Pass::new(names, Sink::Fields(cells)).run(payload)?;
    let Sink::Fields(cells) = pass.sink else {
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
            has_input: !names.has_key,
            reject: None,
        }
    }

    fn run(mut self, payload: &'de [u8]) -> Result<Self, Reject> {
        let mut json = serde_json::Deserializer::from_slice(payload);
        let Node::Object { children, .. } = &self.names.root else {
            unreachable!("the root of a tree of keys is an object");
        };
        let event = Keys {
            pass: &mut self,
            children,
            name: None,
            depth: 1,
        };
        let read = json.deserialize_map(event).and_then(|()| json.end());
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

    /// Uses a value for everything that it is for.
    fn take<E: Error>(&mut self, uses: &[Use], name: &str, cell: Cell<'de>) -> Result<(), E> {
        for used in uses {
            let taken = match used {
                Use::Id if self.header.id.is_some() => return Err(self.twice(name)),
                Use::Id => {
                    let id = header::id(&self.names.id, &cell);
                    id.map(|id| self.header.id = id)
                }
                Use::Time if self.header.time_ms.is_some() => return Err(self.twice(name)),
                Use::Time => {
                    let time = header::time_ms(&self.names.time, &cell, self.names.time_unit);
                    time.map(|time| self.header.time_ms = time)
                }
                Use::Field(_) => Ok(()),
            };
            taken.map_err(|reject| self.refuse(reject))?;
        }
        let mut fields = uses.iter().filter_map(|used| match used {
            Use::Field(position) => Some(*position),
            Use::Id | Use::Time => None,
        });
        let Some(last) = fields.next_back() else {
            return Ok(());
        };
        for position in fields {
            self.set_field(position, name, cell.clone())?;
        }
        self.set_field(last, name, cell)
    }

    /// Stores the value of the field at this position of the schema; a second value is an error.
    fn set_field<E: Error>(
        &mut self,
        position: usize,
        name: &str,
        cell: Cell<'de>,
    ) -> Result<(), E> {
        let Sink::Fields(cells) = &mut self.sink else {
            return Ok(());
        };
        match cells[position].replace(cell) {
            None => Ok(()),
            Some(_) => Err(self.twice(name)),
        }
    }

    /// Notes that the input is there; a second one is an error.
    fn begin_input<E: Error>(&mut self) -> Result<(), E> {
        if std::mem::replace(&mut self.has_input, true) {
            return Err(self.twice(self.names.input));
        }
        Ok(())
    }

    fn twice<E: Error>(&mut self, name: &str) -> E {
        let detail = format!("`{name}` comes twice, expected it once");
        self.refuse(Reject::new(super::RejectReason::Malformed, detail))
    }
}

/// Visits an object of which some values are used.
struct Keys<'p, 'a, 'de> {
    pass: &'p mut Pass<'a, 'de>,
    children: &'a HashMap<String, Node>,
    /// Its own key; `None` for the event.
    name: Option<&'p str>,
    depth: usize,
}

impl<'de> Visitor<'de> for Keys<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            None => formatter.write_str("an object"),
            Some(name) => write!(formatter, "`{name}`, an object"),
        }
    }

    /// Null where an object was: all that would be inside is missing.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self {
            pass,
            children,
            depth,
            ..
        } = self;
        while let Some(Text(key)) = map.next_key()? {
            match children.get(key.as_ref()) {
                Some(Node::Value(uses)) => {
                    let cell = map.next_value()?;
                    pass.take(uses, &key, cell)?;
                }
                Some(node) => map.next_value_seed(NodeSeed {
                    pass,
                    node,
                    name: &key,
                    depth: depth + 1,
                })?,
                None => map.next_value_seed(Ignored {
                    pass,
                    depth: depth + 1,
                })?,
            }
        }
        Ok(())
    }

    /// Elements of an array have their numbers as keys.
    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Self {
            pass,
            children,
            depth,
            ..
        } = self;
        for number in 0.. {
            let key = number.to_string();
            let more = match children.get(&key) {
                Some(node) => elements.next_element_seed(NodeSeed {
                    pass,
                    node,
                    name: &key,
                    depth: depth + 1,
                })?,
                None => elements.next_element_seed(Ignored {
                    pass,
                    depth: depth + 1,
                })?,
            };
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// Reads a value that is used or has used values inside.
struct NodeSeed<'p, 'a, 'de> {
    pass: &'p mut Pass<'a, 'de>,
    node: &'a Node,
    name: &'p str,
    /// Of the value, if it is an array or an object.
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self {
            pass,
            node,
            name,
            depth,
        } = self;
        match node {
            Node::Value(uses) => {
                let cell = Cell::deserialize(deserializer)?;
                pass.take(uses, name, cell)
            }
            Node::Numbers => {
                pass.begin_input()?;
                deserializer.deserialize_seq(Numbers(pass))
            }
            Node::Object { children, is_input } => {
                let keys = Keys {
                    pass,
                    children,
                    name: Some(name),
                    depth,
                };
                if *is_input {
                    keys.pass.begin_input()?;
                    return deserializer.deserialize_map(keys);
                }
                deserializer.deserialize_any(keys)
            }
        }
    }
}

/// Reads the numbers of the input.
struct Numbers<'p, 'a, 'de>(&'p mut Pass<'a, 'de>);

impl<'de> Visitor<'de> for Numbers<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = match &self.0.sink {
            Sink::Dense(layout, _) => layout.width,
            Sink::Fields(..) => 0,
        };
        write!(formatter, "`{}`, {width} numbers", self.0.names.input)
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
}
