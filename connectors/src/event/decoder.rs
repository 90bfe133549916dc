//! From a record's bytes to a row and what is known of the event besides.

use prost::Message;

use super::{
    Cell, Chunk, EventFormat, EventMeta, EventSettings, InputRows, Reject, RejectReason, Row,
    json::{self, JsonNames},
    layout::{DenseLayout, FieldLayout, Layout, Unsuitable},
    wire,
};
use crate::proto::{self, input::Kind, value};
use ostar_model::bundle::{Input, InputKind};

/// Longest id, in bytes: ids are kept by the ten thousand until their labels come.
pub(crate) const MAX_ID_BYTES: usize = 256;

/// Decodes events for one bundle. Checks everything that the model would otherwise have to refuse.
#[derive(Debug, Clone)]
pub struct Decoder {
    format: EventFormat,
    max_bytes: usize,
    names: JsonNames,
    layout: Layout,
}

/// What the broker knows of a record.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecordMeta<'a> {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset within the partition.
    pub offset: i64,
    /// The record's time stamp, for events without one, in milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
    /// The record's key, the id of events without one if it is UTF-8.
    pub key: Option<&'a [u8]>,
}

/// What an event says of itself.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) id: Option<Box<str>>,
    pub(super) time_ms: Option<i64>,
}

// === impl Decoder ===

impl Decoder {
    /// A decoder for events of a bundle with this input and so many classes.
    pub fn new(
        settings: &EventSettings,
        input: &Input,
        classes: usize,
    ) -> Result<Self, Unsuitable> {
        let layout = Layout::new(input, classes);
        layout.check_settings(settings)?;
        Ok(Self {
            format: settings.format,
            max_bytes: settings.max_bytes,
            names: JsonNames::new(settings, &layout),
            layout,
        })
    }

    /// Appends the event to the chunk's rows and events. On a refusal the chunk is as it was. `chunk.next` is
    /// left to the caller, who knows where reading goes on. An event without any time gets 0.
    pub fn decode(
        &self,
        payload: Option<&[u8]>,
        record: RecordMeta<'_>,
        chunk: &mut Chunk,
    ) -> Result<(), Reject> {
        let payload = payload.unwrap_or_default();
        if payload.is_empty() {
            return Err(Reject::empty());
        }
        if payload.len() > self.max_bytes {
            return Err(Reject::too_large(payload.len(), self.max_bytes));
        }
        let header = match self.format {
            EventFormat::Json => self.push_json(payload, &mut chunk.rows)?,
            EventFormat::Protobuf => self.push_protobuf(payload, &mut chunk.rows)?,
            EventFormat::Raw => self.push_raw(payload, &mut chunk.rows)?,
        };
        chunk.events.push(EventMeta {
            id: header.id.or_else(|| id_of_key(record.key)),
            time_ms: header.time_ms.or(record.timestamp_ms).unwrap_or(0),
            partition: record.partition,
            offset: record.offset,
        });
        Ok(())
    }

    /// Appends one input of a request. On a refusal the rows are as they were.
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

    /// Appends a row that was not encoded: of a file or a generator. On a refusal the rows are as they were.
    pub fn push_row(&self, row: &Row, rows: &mut InputRows) -> Result<(), Reject> {
        match (&self.layout, row) {
            (Layout::Dense(layout), Row::Dense(values)) => push_slice(layout, values, rows),
            (Layout::Fields(layout), Row::Fields(named)) => layout.push_named(named, rows),
            _ => Err(self.layout.missing()),
        }
    }

    fn push_json(&self, payload: &[u8], rows: &mut InputRows) -> Result<Header, Reject> {
        match &self.layout {
            Layout::Dense(layout) => rows.push_dense(|values| {
                let start = values.len();
                let header = json::read_dense(payload, &self.names, layout, values)?
                    .ok_or_else(|| self.layout.missing())?;
                layout.check(&values[start..])?;
                Ok(header)
            }),
            Layout::Fields(layout) => {
                let (header, cells) = json::read_fields(payload, &self.names, layout)?
                    .ok_or_else(|| self.layout.missing())?;
                layout.push(cells, rows)?;
                Ok(header)
            }
        }
    }

    fn push_protobuf(&self, payload: &[u8], rows: &mut InputRows) -> Result<Header, Reject> {
        if let Layout::Dense(layout) = &self.layout
            && let Some(event) = wire::read(payload)
            && event.kind == layout.kind
        {
            let header = Header {
                id: checked_id(event.id)?,
                time_ms: event.time_ms,
            };
            push_words(layout, event.values, rows)?;
            return Ok(header);
        }
        let event = proto::Event::decode(payload)
            .map_err(|error| Reject::new(RejectReason::Malformed, error.to_string()))?;
        let header = Header {
            id: checked_id(&event.id)?,
            time_ms: event.time_ms,
        };
        match &event.input {
            Some(input) => self.push_input(input, rows)?,
            None => return Err(self.layout.missing()),
        }
        Ok(header)
    }

    fn push_raw(&self, payload: &[u8], rows: &mut InputRows) -> Result<Header, Reject> {
        let Layout::Dense(layout) = &self.layout else {
            unreachable!("raw events with named fields were refused at the start");
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
        push_words(layout, words, rows)?;
        Ok(Header::default())
    }
}

/// Little-endian numbers, from where they lie into the rows.
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
            cells[position] = match &value.kind {
                None => Cell::Missing,
                Some(value::Kind::Number(number)) => Cell::Number(*number),
                Some(value::Kind::Text(text)) => Cell::Text(text.as_str().into()),
            };
        }
    }
    layout.push(cells, rows)
}

/// `None` for an empty one; refuses one that is too long to keep.
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

/// A key that is no text or too long is no id: keys are not ours to refuse.
fn id_of_key(key: Option<&[u8]>) -> Option<Box<str>> {
    let key = key.filter(|key| (1..=MAX_ID_BYTES).contains(&key.len()))?;
    std::str::from_utf8(key).ok().map(Box::from)
}
