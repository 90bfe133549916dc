//! Decodes a record's bytes into an input row and the event's id, time and position.

use ostar_bundle::Input;

use super::{
    Cell, Chunk, EventMeta, EventSettings, InputRows, Leaf, Reject, Row,
    collector::{Collector, Header, HeaderNames},
    formats::{Inputs, Source},
    header::id_of_key,
    layout::{Layout, UnsuitableSettings},
    times::TimeLimit,
};
use crate::proto;

/// Decodes events for one bundle. Rows that pass its checks never fail in the model.
#[derive(Debug, Clone)]
pub struct Decoder {
    /// Shared: whatever one decoder has fetched, its clones know.
    source: Source,
    max_bytes: usize,
    names: HeaderNames,
    times: TimeLimit,
    layout: Layout,
    /// How inputs of requests are read.
    inputs: Inputs,
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

/// The schema registry does not answer. Reading waits and tries again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema registry does not answer: {reason}")]
pub struct RegistryAway {
    /// What was tried, and what came back.
    pub reason: String,
    /// How long to wait before the next try.
    pub retry_after: std::time::Duration,
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
        Ok(Self {
            source: Source::new(settings, &layout)?,
            max_bytes: settings.max_bytes,
            names: HeaderNames::new(settings),
            times: TimeLimit::new(settings),
            inputs: Inputs::named(&layout),
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
        let header = self.source.with(payload, |format, body| {
            self.push(
                |event| format.read(body, event),
                record.timestamp_ms,
                &mut chunk.rows,
            )
        })?;
        chunk.events.push(EventMeta {
            id: header.id.or_else(|| id_of_key(record.key)),
            time_ms: header.time_ms.or(record.timestamp_ms).unwrap_or(0),
            recorded_ms: record.timestamp_ms.unwrap_or(0),
            partition: record.partition,
            offset: record.offset,
        });
        Ok(())
    }

    /// Appends what is collected as a row; on an error the rows are unchanged.
    fn push<'p>(
        &self,
        read: impl FnOnce(&mut Collector<'_, 'p>) -> Result<(), Reject>,
        written_ms: Option<i64>,
        rows: &mut InputRows,
    ) -> Result<Header, Reject> {
        match &self.layout {
            Layout::Dense(layout) => rows.push_dense(|values| {
                let start = values.len();
                let mut event = Collector::vector(&self.names, *layout, values);
                read(&mut event)?;
                self.check(&event, written_ms)?;
                let header = event.header;
                layout.check(&values[start..])?;
                Ok(header)
            }),
            Layout::Fields(layout) => {
                let mut event = Collector::fields(&self.names, layout.len());
                read(&mut event)?;
                self.check(&event, written_ms)?;
                let header = std::mem::take(&mut event.header);
                layout.push(event.cells(), rows)?;
                Ok(header)
            }
        }
    }

    fn check(&self, event: &Collector<'_, '_>, written_ms: Option<i64>) -> Result<(), Reject> {
        if !event.has_input {
            return Err(self.layout.missing());
        }
        self.times.check(event.header.time_ms, written_ms)
    }

    /// The fields of an event in the order of the bundle's schema, before they are checked. None for a bundle that takes
    /// vectors.
    pub fn fields(&self, payload: &[u8]) -> Result<Vec<Cell<'static>>, Reject> {
        let Layout::Fields(layout) = &self.layout else {
            return Ok(Vec::new());
        };
        self.source.with(payload, |format, body| {
            let mut event = Collector::fields(&self.names, layout.len());
            format.read(body, &mut event)?;
            if !event.has_input {
                return Err(self.layout.missing());
            }
            let cells = event.cells().into_iter().zip(&layout.schema().fields);
            let read = cells.map(|(cell, field)| match cell {
                None => Cell::Missing,
                Some(cell) => cell.into_owned().read_as(field.kind),
            });
            Ok(read.collect())
        })
    }

    /// All values of an event that a path could name, wanted or not; none if it cannot be read.
    pub fn leaves(&self, payload: &[u8]) -> Vec<Leaf> {
        let leaves = self
            .source
            .with(payload, |format, body| Ok(format.leaves(body)));
        leaves.unwrap_or_default()
    }

    /// The id of a schema that the payload needs and that was not fetched yet.
    pub fn schema_to_fetch(&self, payload: &[u8]) -> Option<u32> {
        match &self.source {
            Source::One(_) => None,
            Source::Registry(registry) => registry.to_fetch(payload),
        }
    }

    /// Asks the registry for a schema; `tries` is how often that failed before. An id that the registry does not know is
    /// no error: its events are rejected.
    pub fn fetch_schema(&self, id: u32, tries: u32) -> Result<(), RegistryAway> {
        match &self.source {
            Source::One(_) => Ok(()),
            Source::Registry(registry) => registry.fetch(id, tries),
        }
    }

    /// Appends one input of a request; on an error the rows are unchanged.
    pub fn push_input(&self, input: proto::Input, rows: &mut InputRows) -> Result<(), Reject> {
        self.push(|event| self.inputs.collect(input, event), None, rows)
            .map(drop)
    }

    /// Appends a row from a file or a generator; on an error the rows are unchanged.
    pub fn push_row(&self, row: &Row, rows: &mut InputRows) -> Result<(), Reject> {
        match (&self.layout, row) {
            (Layout::Dense(layout), Row::Dense(values)) => rows.push_dense(|row| {
                layout.check(values)?;
                row.extend_from_slice(values);
                Ok(())
            }),
            (Layout::Fields(layout), Row::Fields(named)) => {
                let fields = layout.schema().fields.iter();
                let cells = fields.map(|field| named.get(&field.name).cloned());
                layout.push(cells.collect(), rows)
            }
            _ => Err(self.layout.missing()),
        }
    }
}
