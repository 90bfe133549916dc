//! Reads JSON events in one pass, and writes them. Builds no values that are not used, and stops at the first number beyond
//! the width.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Unexpected, Visitor},
};
use serde_json::Value;

use super::{Format, Leaf};
use crate::event::{
    Cell, EventSettings, Reject, Row,
    collector::{Collector, HeaderNames},
    layout::Layout,
    path::Path,
    places::{self, Node, Use},
    settings::{DEEPEST, TimeUnit},
};

/// Most values of one event that are listed.
const MOST_LEAVES: usize = 500;
/// Deepest value that is listed.
const DEEPEST_LEAF: usize = 8;

/// Where the values of an event's object are, and how deep it may nest.
#[derive(Debug, Clone)]
pub(super) struct Json {
    root: Node,
    /// Whether the input has a key of its own; else the whole object is the input.
    has_key: bool,
    max_depth: usize,
    time_unit: TimeUnit,
    /// Names of the fields in the schema's order; none for a vector.
    fields: Vec<String>,
}

/// Reads some keys of JSON objects that are no events.
#[derive(Debug, Clone)]
pub(crate) struct JsonKeys {
    json: Json,
    count: usize,
}

/// A pass over one event. serde's errors carry only text, so `reject` keeps the typed reason.
struct Pass<'c, 'a, 'de> {
    event: &'c mut Collector<'a, 'de>,
    max_depth: usize,
    reject: Option<Reject>,
}

/// Borrows from the payload unless the text has escapes. serde borrows a plain `Cow` only with this attribute.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

// === impl Json ===

impl Json {
    pub(super) fn new(settings: &EventSettings, layout: &Layout, root: Node) -> Self {
        Self {
            has_key: !settings.is_flat() || matches!(layout, Layout::Dense(_)),
            max_depth: settings.max_depth,
            time_unit: settings.time_unit,
            fields: layout.field_names(),
            root,
        }
    }
}

// === impl JsonKeys ===

impl JsonKeys {
    pub(crate) fn new(keys: &[&str]) -> Self {
        let json = Json {
            root: places::keys(keys),
            has_key: false,
            max_depth: DEEPEST,
            time_unit: TimeUnit::default(),
            fields: Vec::new(),
        };
        Self {
            json,
            count: keys.len(),
        }
    }

    /// The values of the keys, in their order; `None` for a key that the object does not have.
    pub(crate) fn read<'p>(&'p self, payload: &'p [u8]) -> Result<Vec<Option<Cell<'p>>>, Reject> {
        let names = HeaderNames::default();
        let mut object = Collector::fields(&names, self.count);
        self.json.read(payload, &mut object)?;
        Ok(object.cells())
    }
}

impl Format for Json {
    fn read<'p>(&'p self, payload: &'p [u8], event: &mut Collector<'_, 'p>) -> Result<(), Reject> {
        event.has_input = !self.has_key;
        let mut json = serde_json::Deserializer::from_slice(payload);
        let mut pass = Pass {
            event,
            max_depth: self.max_depth,
            reject: None,
        };
        let root = Place {
            pass: &mut pass,
            node: Some(&self.root),
            name: "",
            depth: 1,
        };
        let read = json.deserialize_map(root).and_then(|()| json.end());
        read.map_err(|error| pass.reject.unwrap_or_else(|| error.into()))
    }

    fn write(&self, id: Option<&str>, time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        let event = Written {
            id,
            time: time_ms.map(|time_ms| self.time_unit.of_ms(time_ms)),
            row,
            fields: &self.fields,
        };
        let written = serde_json::to_vec(&event.at(&self.root));
        written.expect("writing text and numbers to memory cannot fail")
    }

    fn leaves(&self, payload: &[u8]) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        if let Ok(Value::Object(object)) = serde_json::from_slice(payload) {
            for (key, value) in object {
                add_leaves(Path::key(&key), value, &mut leaves);
            }
        }
        leaves
    }
}

// === impl Pass ===

impl<'de> Pass<'_, '_, 'de> {
    fn put<E: Error>(&mut self, uses: &[Use], name: &str, cell: Cell<'de>) -> Result<(), E> {
        match self.event.put(uses, cell, None) {
            Ok(again) => self.once(again, name),
            Err(reject) => Err(self.refuse(reject)),
        }
    }

    fn begin_input<E: Error>(&mut self, name: &str) -> Result<(), E> {
        let again = self.event.begin_input();
        self.once(again, name)
    }

    /// A second value in the same place is an error.
    fn once<E: Error>(&mut self, again: bool, name: &str) -> Result<(), E> {
        if again {
            let detail = format!("`{name}` comes twice, expected it once");
            return Err(self.refuse(Reject::malformed(detail)));
        }
        Ok(())
    }

    fn refuse<E: Error>(&mut self, reject: Reject) -> E {
        self.reject = Some(reject);
        E::custom("refused")
    }
}

/// Reads a value that is used or has used values inside, or skips one.
struct Place<'s, 'c, 'a, 'de> {
    pass: &'s mut Pass<'c, 'a, 'de>,
    /// `None` for a value that is not used.
    node: Option<&'s Node>,
    /// Its own key; empty for the event.
    name: &'s str,
    /// Of the value, if it is an array or an object.
    depth: usize,
}

impl<'c, 'a, 'de> Place<'_, 'c, 'a, 'de> {
    fn inner<'s>(&'s mut self, name: &'s str) -> Place<'s, 'c, 'a, 'de> {
        Place {
            pass: self.pass,
            node: self.node.and_then(|node| node.child(name)),
            name,
            depth: self.depth + 1,
        }
    }

    fn check_depth<E: Error>(&mut self) -> Result<(), E> {
        let max_depth = self.pass.max_depth;
        if self.depth > max_depth {
            return Err(self.pass.refuse(Reject::too_deep(max_depth)));
        }
        Ok(())
    }

    /// A single value can be skipped, and cannot be an object.
    fn single<E: Error>(self, found: Unexpected<'_>) -> Result<(), E> {
        match self.node {
            None => Ok(()),
            Some(_) => Err(E::invalid_type(found, &self)),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_, '_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.node {
            Some(Node::Value(uses)) => {
                let cell = Cell::deserialize(deserializer)?;
                self.pass.put(uses, self.name, cell)
            }
            Some(Node::Numbers) => {
                self.pass.begin_input(self.name)?;
                deserializer.deserialize_seq(Numbers(self.pass))
            }
            Some(Node::Object { is_input: true, .. }) => {
                self.pass.begin_input(self.name)?;
                deserializer.deserialize_map(self)
            }
            Some(Node::Object { .. }) | None => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Place<'_, '_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            "" => formatter.write_str("an object"),
            name => write!(formatter, "`{name}`, an object"),
        }
    }

    /// Null where an object was: all that would be inside is missing.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.single(Unexpected::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.single(Unexpected::Signed(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.single(Unexpected::Unsigned(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.single(Unexpected::Float(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.single(Unexpected::Str(text))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.check_depth()?;
        while let Some(Text(key)) = map.next_key()? {
            map.next_value_seed(self.inner(&key))?;
        }
        Ok(())
    }

    /// Elements of an array have their numbers as keys.
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        self.check_depth()?;
        for number in 0_usize.. {
            let key = self.node.map_or_else(String::new, |_| number.to_string());
            if elements.next_element_seed(self.inner(&key))?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// Reads the numbers of the input.
struct Numbers<'s, 'c, 'a, 'de>(&'s mut Pass<'c, 'a, 'de>);

impl<'de> Visitor<'de> for Numbers<'_, '_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.event.expected())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<(), A::Error> {
        let Some((values, end)) = self.0.event.values() else {
            return Ok(());
        };
        while let Some(number) = numbers.next_element()? {
            if values.len() == end {
                let reject = self.0.event.too_wide();
                return Err(self.0.refuse(reject));
            }
            values.push(number);
        }
        Ok(())
    }
}

/// An event that is to be written.
struct Written<'e> {
    id: Option<&'e str>,
    time: Option<i64>,
    row: &'e Row,
    fields: &'e [String],
}

/// What an event has at a node.
struct At<'e> {
    event: &'e Written<'e>,
    node: &'e Node,
}

impl<'e> Written<'e> {
    fn at(&'e self, node: &'e Node) -> At<'e> {
        At { event: self, node }
    }

    fn value(&self, used: Use) -> Option<Cell<'e>> {
        match (used, self.row) {
            (Use::Id, _) => self.id.map(|id| Cell::Text(id.into())),
            (Use::Time, _) => self.time.map(Cell::Integer),
            (Use::Field(position), Row::Fields(named)) => {
                named.get(&self.fields[position]).cloned()
            }
            (Use::Field(_), Row::Dense(_)) => None,
        }
    }
}

impl At<'_> {
    /// Whether there is something to write: an input always is, even without fields.
    fn is_some(&self) -> bool {
        match self.node {
            Node::Value(uses) => uses.iter().any(|used| self.event.value(*used).is_some()),
            Node::Numbers => matches!(self.event.row, Row::Dense(_)),
            Node::Object { children, is_input } => {
                *is_input
                    || children
                        .values()
                        .any(|child| self.event.at(child).is_some())
            }
        }
    }
}

impl Serialize for At<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.node {
            // A field may be in the place of the id or the time, and comes first.
            Node::Value(uses) => {
                let value = uses.iter().find_map(|used| self.event.value(*used));
                value.unwrap_or(Cell::Missing).serialize(serializer)
            }
            Node::Numbers => match self.event.row {
                Row::Dense(numbers) => numbers.serialize(serializer),
                Row::Fields(_) => serializer.serialize_unit(),
            },
            Node::Object { children, .. } => {
                let inner = children
                    .iter()
                    .map(|(key, child)| (key, self.event.at(child)));
                serializer.collect_map(inner.filter(|(_, at)| at.is_some()))
            }
        }
    }
}

fn add_leaves(path: Path, value: Value, leaves: &mut Vec<Leaf>) {
    if leaves.len() >= MOST_LEAVES || path.keys().len() > DEEPEST_LEAF {
        return;
    }
    if let Value::Object(object) = value {
        for (key, value) in object {
            add_leaves(path.clone().below(&key), value, leaves);
        }
        return;
    }
    // A list of something else than texts and numbers is no value of a field.
    if let Ok(cell) = <Cell<'static> as Deserialize<'static>>::deserialize(value) {
        leaves.push(Leaf {
            path: path.to_string(),
            cell,
        });
    }
}
