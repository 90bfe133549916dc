//! Schemas of events: from a file, or from a registry by the id in front of each payload.

mod protobuf;
mod registry;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use apache_avro::Schema;
use ostar_bundle::{DESCRIPTION_FILE, read_file, read_text_file};

use self::{
    protobuf::Messages,
    registry::{FIRST_RETRY, Named, Registered, Registry, RegistryError},
};
use super::{
    Cell, EventFormat, EventSettings, Reject, RejectReason,
    avro::{Bounds, Program},
    decoder::Header,
    layout::{Layout, UnsuitableSettings},
    message::Plan,
    places::Node,
    slots::HeaderNames,
};

/// Most schemas that are kept. Topics have a handful.
const MOST_KEPT: usize = 500;
/// How long an id counts as unknown before the registry is asked again.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// In front of a payload: a zero, then the schema's id.
const PREFIX: usize = 5;

/// Knows how to read payloads.
#[derive(Debug)]
pub(super) struct Schemas {
    format: EventFormat,
    bounds: Bounds,
    names: HeaderNames,
    wanted: Node,
    /// Full name of the message that is taken, if others are not.
    message: Option<String>,
    /// The schema that wanted names are of.
    reader: Option<Schema>,
    /// Without one, all events have the schema of the file.
    registry: Option<Registry>,
    kept: Mutex<Kept>,
    /// Of the file, without a registry.
    only: Option<Known>,
}

#[derive(Debug, Default)]
struct Kept {
    by_id: HashMap<u32, Known>,
    /// In the order they came, to forget the oldest.
    order: VecDeque<u32>,
}

/// What is known of an id.
#[derive(Debug, Clone)]
enum Known {
    Avro(Arc<Program>),
    Message(Arc<Plan>),
    Messages(Arc<Messages>),
    Json,
    /// Its events cannot be used, and why.
    Refused(RejectReason, String, Instant),
}

/// The registry does not answer. Reading waits and tries again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the schema registry does not answer: {reason}")]
pub struct RegistryAway {
    /// What was tried, and what came back.
    pub reason: String,
    /// How long to wait before the next try.
    pub retry_after: Duration,
}

impl Schemas {
    /// `None` if the format needs no schema.
    pub(super) fn new(
        settings: &EventSettings,
        layout: &Layout,
        wanted: &Node,
    ) -> Result<Option<Self>, UnsuitableSettings> {
        let refuse = |problem| Err(UnsuitableSettings::new(problem));
        let reader = match &settings.schema_file {
            Some(path) if settings.format == EventFormat::Avro => {
                let unreadable = |problem: String| {
                    let told = format!(
                        "events.schema_file is {path:?}, expected an Avro schema: {problem}"
                    );
                    UnsuitableSettings::new(told)
                };
                let text = read_text_file(path, DESCRIPTION_FILE)
                    .map_err(|error| unreadable(error.to_string()))?;
                Some(Schema::parse_str(&text).map_err(|error| unreadable(error.to_string()))?)
            }
            _ => None,
        };
        let registry = match &settings.registry.url {
            Some(url) => {
                Some(Registry::new(url, &settings.registry).map_err(UnsuitableSettings::new)?)
            }
            None => None,
        };
        let only = match (settings.format, &registry, &reader) {
            (EventFormat::Avro, None, Some(schema)) => {
                let program = Program::compile(schema, &[], None, wanted).map_err(|problem| {
                    UnsuitableSettings::new(format!("events.schema_file: {problem}"))
                })?;
                Some(Known::Avro(Arc::new(program)))
            }
            (EventFormat::Protobuf, None, _) if settings.has_own_message() => {
                Some(Known::Message(Arc::new(message_plan(settings, wanted)?)))
            }
            (EventFormat::Avro, None, None) => {
                return refuse(
                    "events.format is avro, expected events.registry.url or events.schema_file to be set".into(),
                );
            }
            (format, Some(_), _) if !format.has_names() => {
                return refuse(
                    "events.registry.url is set, expected events.format to be avro, protobuf or json, not raw"
                        .into(),
                );
            }
            (_, Some(_), _) => None,
            (_, None, _) => return Ok(None),
        };
        let (fields, width) = match layout {
            Layout::Fields(fields) => (fields.len(), 0),
            Layout::Dense(dense) => (0, dense.width),
        };
        Ok(Some(Self {
            bounds: Bounds {
                fields,
                width,
                depth: settings.max_depth,
            },
            names: HeaderNames {
                id: settings.id_field.clone(),
                time: settings.time_field.clone(),
                unit: settings.time_unit,
            },
            format: settings.format,
            message: settings.message.clone(),
            wanted: wanted.clone(),
            reader,
            registry,
            kept: Mutex::default(),
            only,
        }))
    }

    /// Reads an event by its schema, and gives its header, fields, vector and whether it has an input.
    pub(super) fn read<T>(
        &self,
        payload: &[u8],
        take: impl FnOnce(Header, Vec<Cell<'_>>, &[f32], bool) -> Result<T, Reject>,
    ) -> Result<T, Reject> {
        match self.of(payload)? {
            (Known::Avro(program), body) => {
                let slots = program.read(body, &self.names, self.bounds)?;
                take(slots.header, slots.cells, &slots.values, slots.has_input)
            }
            (Known::Message(plan), body) => {
                let Bounds { fields, width, .. } = self.bounds;
                let slots = plan.read(body, &self.names, fields, width)?;
                take(slots.header, slots.cells, &slots.values, slots.has_input)
            }
            (Known::Messages(messages), body) => {
                let (plan, body) = messages.of(body)?;
                let Bounds { fields, width, .. } = self.bounds;
                let slots = plan.read(body, &self.names, fields, width)?;
                take(slots.header, slots.cells, &slots.values, slots.has_input)
            }
            _ => Err(Reject::new(
                RejectReason::IncompatibleSchema,
                "the schema is of JSON",
            )),
        }
    }

    /// The fields of an event with a schema.
    pub(super) fn fields(&self, payload: &[u8]) -> Result<Vec<Cell<'static>>, Reject> {
        self.read(payload, |_, cells, _, _| {
            Ok(cells.into_iter().map(Cell::into_owned).collect())
        })
    }

    /// A JSON payload without its prefix.
    pub(super) fn json_body<'p>(&self, payload: &'p [u8]) -> Result<&'p [u8], Reject> {
        self.of(payload).map(|(_, body)| body)
    }

    /// What is known of a payload's schema, and the payload without its prefix. It has to be fetched first.
    fn of<'p>(&self, payload: &'p [u8]) -> Result<(Known, &'p [u8]), Reject> {
        if let Some(program) = &self.only {
            return Ok((program.clone(), payload));
        }
        let id = id_of(payload)?;
        match self.known(id) {
            Some(Known::Refused(reason, detail, _)) => Err(Reject::new(reason, detail)),
            Some(known) => Ok((known, &payload[PREFIX..])),
            None => Err(Reject::new(
                RejectReason::UnknownSchema,
                format!("schema {id} was not asked for"),
            )),
        }
    }

    /// The id of a payload that has to be fetched before the payload can be read.
    pub(super) fn to_fetch(&self, payload: &[u8]) -> Option<u32> {
        self.registry.as_ref()?;
        let id = id_of(payload).ok()?;
        self.known(id).is_none().then_some(id)
    }

    fn known(&self, id: u32) -> Option<Known> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.by_id.get(&id)?;
        match known {
            Known::Refused(RejectReason::UnknownSchema, _, since)
                if since.elapsed() > UNKNOWN_FOR =>
            {
                None
            }
            known => Some(known.clone()),
        }
    }

    /// Asks the registry for a schema. An id that it does not know, and a schema that cannot give what is wanted, are
    /// remembered: their events are rejected.
    pub(super) fn fetch(&self, id: u32, tries: u32) -> Result<(), RegistryAway> {
        let Some(registry) = &self.registry else {
            return Ok(());
        };
        let known = match registry.schema(id) {
            Ok((registered, references)) => self.compile(id, &registered, &references),
            Err(RegistryError::Unknown(problem)) => {
                let detail = format!("the registry has no schema {id}: {problem}");
                Known::Refused(RejectReason::UnknownSchema, detail, Instant::now())
            }
            Err(RegistryError::Unavailable(reason)) => {
                let wait = FIRST_RETRY.saturating_mul(1 << tries.min(10));
                return Err(RegistryAway {
                    reason,
                    retry_after: wait.min(LAST_RETRY),
                });
            }
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.by_id.insert(id, known).is_none() {
            kept.order.push_back(id);
        }
        while kept.order.len() > MOST_KEPT {
            if let Some(oldest) = kept.order.pop_front() {
                kept.by_id.remove(&oldest);
            }
        }
        Ok(())
    }

    fn compile(&self, id: u32, registered: &Registered, references: &[Named]) -> Known {
        let refuse = |problem: String| {
            let detail = format!("schema {id}: {problem}");
            Known::Refused(RejectReason::IncompatibleSchema, detail, Instant::now())
        };
        match (self.format, registered.kind.as_str()) {
            (EventFormat::Json, "JSON") => Known::Json,
            (EventFormat::Avro, "AVRO") => {
                let parsed = parse(&registered.schema, references);
                let program = parsed.and_then(|(schema, others)| {
                    Program::compile(&schema, &others, self.reader.as_ref(), &self.wanted)
                });
                match program {
                    Ok(program) => Known::Avro(Arc::new(program)),
                    Err(problem) => refuse(problem),
                }
            }
            (EventFormat::Protobuf, "PROTOBUF") => {
                let only = self.message.as_deref();
                match Messages::compile(&registered.schema, references, only, &self.wanted) {
                    Ok(messages) => Known::Messages(Arc::new(messages)),
                    Err(problem) => refuse(problem),
                }
            }
            (format, kind) => refuse(format!("is of type {kind}, expected that of {format:?}")),
        }
    }
}

/// The plan of a message in a descriptor set.
fn message_plan(settings: &EventSettings, wanted: &Node) -> Result<Plan, UnsuitableSettings> {
    let (Some(path), Some(message)) = (&settings.schema_file, &settings.message) else {
        return Err(UnsuitableSettings::new(
            "events.message is not set, expected the full name of a message of events.schema_file"
                .into(),
        ));
    };
    let read = read_file(path, DESCRIPTION_FILE).map_err(|error| error.to_string());
    let plan = read.and_then(|bytes| Plan::compile(&bytes, message, wanted));
    plan.map_err(|problem| {
        UnsuitableSettings::new(format!("events.schema_file is {path:?}: {problem}"))
    })
}

/// A schema, and those that it refers to.
fn parse(text: &str, references: &[Named]) -> Result<(Schema, Vec<Schema>), String> {
    let references = references.iter().map(|reference| &reference.schema);
    Schema::parse_str_with_list(text, references).map_err(|error| error.to_string())
}

/// The id in Confluent's wire format.
fn id_of(payload: &[u8]) -> Result<u32, Reject> {
    match payload {
        [0, a, b, c, d, ..] => Ok(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => Err(Reject::new(
            RejectReason::Malformed,
            "the payload does not begin with a zero and the id of a schema, as a registry's serialisers write it",
        )),
    }
}
