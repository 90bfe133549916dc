//! Decodes a record's bytes into an input row and the event's id, time and position.

use std::{collections::HashMap, sync::Arc};

use ostar_bundle::{Input, InputKind};
use prost::Message;

use super::{
    Cell, Chunk, EventFormat, EventMeta, EventSettings, InputRows, Reject, RejectReason, Row,
    json::{self, JsonNames},
    layout::{DenseLayout, FieldLayout, Layout, UnsuitableSettings},
    places,
    schemas::{RegistryAway, Schemas},
    times::TimeLimit,
    wire,
};
use crate::proto::{self, input::Kind, value};

/// Longest id, in bytes. Up to `labels.cache` ids wait in memory for their labels.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// Decodes events for one bundle. Rows that pass its checks never fail in the model.
#[derive(Debug, Clone)]
pub struct Decoder {
    format: EventFormat,
    max_bytes: usize,
    names: JsonNames,
    /// Positions of fields by their keys in `ostar.v1.Event`; none for vectors.
    keys: HashMap<String, Vec<usize>>,
    /// `None` for formats without schemas. Shared: whatever one decoder has fetched, its clones know.
    schemas: Option<Arc<Schemas>>,
    times: TimeLimit,
    layout: Layout,
}

/// What Kafka says about a record.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordMeta<'a> {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// Milliseconds since 1970; the time of events that carry none. `None` if the record has none.
    pub timestamp_ms: Option<i64>,
    /// The id of events that carry none, if it is UTF-8.
    pub key: Option<&'a [u8]>,
}

/// Id and time that the event itself carries.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) id: Option<Box<str>>,
    pub(super) time_ms: Option<i64>,
}

// === impl Decoder ===

impl Decoder {
    /// Fails if events with these settings cannot carry the bundle's input.
    pub fn new(
        settings: &EventSettings,
        input: &Input,
        classes: usize,
    ) -> Result<Self, UnsuitableSettings> {
        let layout = Layout::new(input, classes);
        layout.check_settings(settings)?;
        Ok(Self {
            format: settings.format,
            max_bytes: settings.max_bytes,
            names: JsonNames::new(settings, &layout)?,
            schemas: Schemas::new(settings, &layout, &places::tree(settings, &layout)?)?
                .map(Arc::new),
            keys: match &layout {
                Layout::Fields(fields) => fields.event_keys(settings),
                Layout::Dense(_) => HashMap::new(),
            },
            times: TimeLimit::new(settings),
            layout,
        })
    }

    /// Appends the event to the chunk's rows and events; on an error the chunk is unchanged. The caller sets
    /// `chunk.next`. The time is 0 if neither the event nor its record has one.
    pub fn decode(
        &self,
        payload: &[u8],
        record: RecordMeta<'_>,
        chunk: &mut Chunk,
    ) -> Result<(), Reject> {
        if payload.is_empty() {
            return Err(Reject::empty());
        }
        if payload.len() > self.max_bytes {
            return Err(Reject::too_large(payload.len(), self.max_bytes));
        }
        let (rows, written_ms) = (&mut chunk.rows, record.timestamp_ms);
        let header = match self.format {
            EventFormat::Json => self.push_json(self.body(payload)?, written_ms, rows)?,
            EventFormat::Avro => self.push_by_schema(payload, written_ms, rows)?,
            EventFormat::Protobuf if self.schemas.is_some() => {
                self.push_by_schema(payload, written_ms, rows)?
            }
            EventFormat::Protobuf => self.push_protobuf(payload, written_ms, rows)?,
            EventFormat::Raw => self.push_raw(payload, written_ms, rows)?,
        };
        chunk.events.push(EventMeta {
            id: header.id.or_else(|| id_of_key(record.key)),
            time_ms: header.time_ms.or(record.timestamp_ms).unwrap_or(0),
            recorded_ms: record.timestamp_ms.unwrap_or(0),
            partition: record.partition,
            offset: record.offset,
        });
        Ok(())
    }

    /// The fields of an event in the order of the bundle's schema, before they are checked. None for a bundle that takes
    /// vectors.
    pub fn fields(&self, payload: &[u8]) -> Result<Vec<Cell<'static>>, Reject> {
        let Layout::Fields(layout) = &self.layout else {
            return Ok(Vec::new());
        };
        let cells = match self.format {
            EventFormat::Avro | EventFormat::Protobuf if self.schemas.is_some() => {
                let schemas = self.schemas.as_ref();
                schemas.map_or_else(|| Ok(Vec::new()), |schemas| schemas.fields(payload))?
            }
            EventFormat::Avro => Vec::new(),
            EventFormat::Json => {
                let read = json::read_fields(self.body(payload)?, &self.names, layout)?;
                read.ok_or_else(|| self.layout.missing())?.1
            }
            EventFormat::Protobuf => {
                let event = decode_event(payload)?;
                let Some(Kind::Fields(fields)) = event.input.and_then(|input| input.kind) else {
                    return Err(self.layout.missing());
                };
                let cells = self.event_cells(layout, &fields);
                cells.into_iter().map(Cell::into_owned).collect()
            }
            EventFormat::Raw => Vec::new(),
        };
        let cells = cells.into_iter().zip(&layout.schema().fields);
        Ok(cells
            .map(|(cell, field)| cell.into_owned().read_as(field.kind))
            .collect())
    }

    /// The id of a schema that the payload needs and that was not fetched yet.
    pub fn schema_to_fetch(&self, payload: &[u8]) -> Option<u32> {
        self.schemas.as_ref()?.to_fetch(payload)
    }

    /// Asks the registry for a schema; `tries` is how often that failed before. An id that the registry does not know is
    /// no error: its events are rejected.
    pub fn fetch_schema(&self, id: u32, tries: u32) -> Result<(), RegistryAway> {
        match &self.schemas {
            Some(schemas) => schemas.fetch(id, tries),
            None => Ok(()),
        }
    }

    /// A JSON payload without the id of its schema.
    fn body<'p>(&self, payload: &'p [u8]) -> Result<&'p [u8], Reject> {
        match &self.schemas {
            Some(schemas) => schemas.json_body(payload),
            None => Ok(payload),
        }
    }

    fn push_by_schema(
        &self,
        payload: &[u8],
        written_ms: Option<i64>,
        rows: &mut InputRows,
    ) -> Result<Header, Reject> {
        let Some(schemas) = &self.schemas else {
            return Err(self.layout.missing());
        };
        schemas.read(payload, |header, cells, values, has_input| {
            self.times.check(header.time_ms, written_ms)?;
            match &self.layout {
                _ if !has_input => return Err(self.layout.missing()),
                Layout::Dense(layout) => push_slice(layout, values, rows)?,
                Layout::Fields(layout) => layout.push(cells, rows)?,
            }
            Ok(header)
        })
    }

    /// Cells of an event's fields, by the keys that events have.
    fn event_cells<'f>(&self, layout: &FieldLayout, fields: &'f proto::Fields) -> Vec<Cell<'f>> {
        let mut cells = vec![Cell::Missing; layout.len()];
        for (name, value) in &fields.values {
            for position in self.keys.get(name).into_iter().flatten() {
                cells[*position] = cell_of(value);
            }
        }
        cells
    }

    /// Appends one input of a request; on an error the rows are unchanged.
    pub fn push_input(&self, input: &proto::Input, rows: &mut InputRows) -> Result<(), Reject> {
        match (&self.layout, &input.kind) {
            (Layout::Fields(layout), Some(Kind::Fields(fields))) => {
                push_proto_fields(layout, fields, rows)
            }
            (Layout::Dense(layout), Some(kind)) => {
                let (kind, vector) = match kind {
                    Kind::Probabilities(vector) => (InputKind::Probabilities, vector),
                    Kind::Logits(vector) => (InputKind::Logits, vector),
                    Kind::Latent(vector) => (InputKind::Latent, vector),
                    Kind::Dense(vector) => (InputKind::Dense, vector),
                    Kind::Fields(_) => return Err(self.layout.missing()),
                };
                if kind != layout.kind {
                    return Err(self.layout.missing());
                }
                push_slice(layout, &vector.values, rows)
            }
            _ => Err(self.layout.missing()),
        }
    }

    /// Appends a row from a file or a generator; on an error the rows are unchanged.
    pub fn push_row(&self, row: &Row, rows: &mut InputRows) -> Result<(), Reject> {
        match (&self.layout, row) {
            (Layout::Dense(layout), Row::Dense(values)) => push_slice(layout, values, rows),
            (Layout::Fields(layout), Row::Fields(named)) => layout.push_named(named, rows),
            _ => Err(self.layout.missing()),
        }
    }

    fn push_json(
        &self,
        payload: &[u8],
        written_ms: Option<i64>,
        rows: &mut InputRows,
    ) -> Result<Header, Reject> {
        match &self.layout {
            Layout::Dense(layout) => rows.push_dense(|values| {
                let start = values.len();
                let header = json::read_dense(payload, &self.names, layout, values)?
                    .ok_or_else(|| self.layout.missing())?;
                layout.check(&values[start..])?;
                self.times.check(header.time_ms, written_ms)?;
                Ok(header)
            }),
            Layout::Fields(layout) => {
                let (header, cells) = json::read_fields(payload, &self.names, layout)?
                    .ok_or_else(|| self.layout.missing())?;
                self.times.check(header.time_ms, written_ms)?;
                layout.push(cells, rows)?;
                Ok(header)
            }
        }
    }

    fn push_protobuf(
        &self,
        payload: &[u8],
        written_ms: Option<i64>,
        rows: &mut InputRows,
    ) -> Result<Header, Reject> {
        // Fast path: vectors go from the payload into the rows. Whatever `wire` does not know is left to prost.
        if let Layout::Dense(layout) = &self.layout
            && let Some(event) = wire::read(payload)
            && event.kind == layout.kind
        {
            let header = Header {
                id: checked_id(event.id)?,
                time_ms: event.time_ms,
            };
            self.times.check(header.time_ms, written_ms)?;
            push_words(layout, event.values, rows)?;
            return Ok(header);
        }
        let event = decode_event(payload)?;
        let header = Header {
            id: checked_id(&event.id)?,
            time_ms: event.time_ms,
        };
        self.times.check(header.time_ms, written_ms)?;
        let kind = event.input.as_ref().map(|input| &input.kind);
        match (&event.input, &self.layout, kind) {
            (_, Layout::Fields(layout), Some(Some(Kind::Fields(fields)))) => {
                layout.push(self.event_cells(layout, fields), rows)?;
            }
            (Some(input), ..) => self.push_input(input, rows)?,
            (None, ..) => return Err(self.layout.missing()),
        }
        Ok(header)
    }

    fn push_raw(
        &self,
        payload: &[u8],
        written_ms: Option<i64>,
        rows: &mut InputRows,
    ) -> Result<Header, Reject> {
        let Layout::Dense(layout) = &self.layout else {
            unreachable!("`Decoder::new` refuses raw events with named fields");
        };
        let (words, rest) = payload.as_chunks::<4>();
        if !rest.is_empty() {
            let detail = format!(
                "the payload has {} bytes, expected {} numbers of 4",
                payload.len(),
                layout.width
            );
            return Err(Reject::new(RejectReason::WrongWidth, detail));
        }
        self.times.check(None, written_ms)?;
        push_words(layout, words, rows)?;
        Ok(Header::default())
    }
}

/// Appends little-endian numbers straight from the payload.
fn push_words(layout: &DenseLayout, words: &[[u8; 4]], rows: &mut InputRows) -> Result<(), Reject> {
    if words.len() != layout.width {
        return Err(layout.wrong_width(words.len()));
    }
    rows.push_dense(|values| {
        let start = values.len();
        values.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
        layout.check(&values[start..])
    })
}

fn push_slice(layout: &DenseLayout, row: &[f32], rows: &mut InputRows) -> Result<(), Reject> {
    layout.check(row)?;
    rows.push_dense(|values| {
        values.extend_from_slice(row);
        Ok(())
    })
}

fn push_proto_fields(
    layout: &FieldLayout,
    fields: &proto::Fields,
    rows: &mut InputRows,
) -> Result<(), Reject> {
    let mut cells = vec![Cell::Missing; layout.len()];
    for (name, value) in &fields.values {
        if let Some(position) = layout.position(name) {
            cells[position] = cell_of(value);
        }
    }
    layout.push(cells, rows)
}

fn cell_of(value: &proto::Value) -> Cell<'_> {
    match &value.kind {
        None => Cell::Missing,
        Some(value::Kind::Number(number)) => Cell::Number(*number),
        Some(value::Kind::Text(text)) => Cell::Text(text.as_str().into()),
    }
}

fn decode_event(payload: &[u8]) -> Result<proto::Event, Reject> {
    proto::Event::decode(payload)
        .map_err(|error| Reject::new(RejectReason::Malformed, error.to_string()))
}

/// `None` for an empty id; an error for one over [`MAX_ID_BYTES`].
pub(crate) fn checked_id(id: &str) -> Result<Option<Box<str>>, Reject> {
    match id.len() {
        0 => Ok(None),
        1..=MAX_ID_BYTES => Ok(Some(id.into())),
        bytes => Err(Reject::new(
            RejectReason::BadId,
            format!("the id has {bytes} bytes, expected at most {MAX_ID_BYTES}"),
        )),
    }
}

/// A key that is unusable as an id gives no id. That is not an error: the producer may use keys for partitioning.
fn id_of_key(key: Option<&[u8]>) -> Option<Box<str>> {
    let key = key.filter(|key| (1..=MAX_ID_BYTES).contains(&key.len()))?;
    std::str::from_utf8(key).ok().map(Box::from)
}
