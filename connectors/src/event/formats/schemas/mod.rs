//! Schemas of events: from a file, or from a registry by the id in front of each payload.

mod protobuf;
mod registry;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use apache_avro::Schema;
use ostar_bundle::{DESCRIPTION_FILE, read_file, read_text_file};

use self::{
    protobuf::Messages,
    registry::{FIRST_RETRY, Named, Registered, Registry, RegistryError},
};
use super::{Format, FormatsById, Source, avro::Program, json::Json, message::Plan, plain};
use crate::event::{
    EventFormat, EventSettings, RegistryAway, Reject, RejectReason,
    layout::{Layout, UnsuitableSettings},
    places::Node,
};

/// Most ids that are remembered. Topics have a handful.
const MOST_KEPT: usize = 500;
/// How long an id counts as unknown before the registry is asked again.
const UNKNOWN_FOR: Duration = Duration::from_secs(30);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// In front of a payload: a zero, then the schema's id.
const PREFIX: usize = 5;

/// Formats of payloads by the schemas of a registry.
#[derive(Debug)]
struct Schemas {
    format: EventFormat,
    wanted: Node,
    max_depth: usize,
    /// Full name of the message that is taken, if others are not.
    message: Option<String>,
    /// The schema that wanted names are of.
    reader: Option<Schema>,
    /// JSON is read without its schema.
    json: Arc<dyn Format>,
    registry: Registry,
    kept: Mutex<HashMap<u32, Known>>,
}

/// What is known of an id.
#[derive(Debug, Clone)]
enum Known {
    Format(Arc<dyn Format>),
    /// Its events cannot be used, and why.
    Refused(RejectReason, String, Instant),
}

/// The formats of events with schemas.
pub(super) fn open(
    settings: &EventSettings,
    layout: &Layout,
    wanted: Node,
) -> Result<Source, UnsuitableSettings> {
    if settings.registry.url.is_some() {
        let schemas = Schemas::new(settings, layout, wanted)?;
        return Ok(Source::Registry(Arc::new(schemas)));
    }
    let format: Arc<dyn Format> = match avro_schema(settings)? {
        Some(schema) => {
            let program = Program::compile(&schema, &[], None, &wanted, settings.max_depth);
            Arc::new(program.map_err(|problem| {
                UnsuitableSettings::new(format!("events.schema_file: {problem}"))
            })?)
        }
        None if settings.format == EventFormat::Protobuf => {
            Arc::new(message_plan(settings, &wanted)?)
        }
        None => plain(settings, layout, wanted)?,
    };
    Ok(Source::One(format))
}

impl FormatsById for Schemas {
    fn to_fetch(&self, payload: &[u8]) -> Option<u32> {
        let id = id_of(payload).ok()?;
        self.known(id).is_none().then_some(id)
    }

    /// An id that the registry does not know, and a schema that cannot give what is wanted, are remembered: their events
    /// are rejected.
    fn fetch(&self, id: u32, tries: u32) -> Result<(), RegistryAway> {
        let known = match self.registry.schema(id) {
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
        // Only senders of made-up ids get here.
        if kept.len() == MOST_KEPT {
            kept.clear();
        }
        kept.insert(id, known);
        Ok(())
    }

    fn format_of<'p>(&self, payload: &'p [u8]) -> Result<(Arc<dyn Format>, &'p [u8]), Reject> {
        let id = id_of(payload)?;
        match self.known(id) {
            Some(Known::Format(format)) => Ok((format, &payload[PREFIX..])),
            Some(Known::Refused(reason, detail, _)) => Err(Reject::new(reason, detail)),
            None => Err(Reject::new(
                RejectReason::UnknownSchema,
                format!("schema {id} was not asked for"),
            )),
        }
    }
}

impl Schemas {
    fn new(
        settings: &EventSettings,
        layout: &Layout,
        wanted: Node,
    ) -> Result<Self, UnsuitableSettings> {
        if !settings.format.has_names() {
            return Err(UnsuitableSettings::new(
                "events.registry.url is set, expected events.format to be avro, protobuf or json, not raw",
            ));
        }
        let reader = avro_schema(settings)?;
        let registry = Registry::new(&settings.registry).map_err(UnsuitableSettings::new)?;
        Ok(Self {
            format: settings.format,
            max_depth: settings.max_depth,
            message: settings.message.clone(),
            json: Arc::new(Json::new(settings, layout, wanted.clone())),
            wanted,
            reader,
            registry,
            kept: Mutex::default(),
        })
    }

    fn known(&self, id: u32) -> Option<Known> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.get(&id)?;
        match known {
            Known::Refused(RejectReason::UnknownSchema, _, since)
                if since.elapsed() > UNKNOWN_FOR =>
            {
                None
            }
            known => Some(known.clone()),
        }
    }

    fn compile(&self, id: u32, registered: &Registered, references: &[Named]) -> Known {
        match self.format_by(registered, references) {
            Ok(format) => Known::Format(format),
            Err(problem) => {
                let detail = format!("schema {id}: {problem}");
                Known::Refused(RejectReason::IncompatibleSchema, detail, Instant::now())
            }
        }
    }

    fn format_by(
        &self,
        registered: &Registered,
        references: &[Named],
    ) -> Result<Arc<dyn Format>, String> {
        let (text, wanted) = (&registered.schema, &self.wanted);
        Ok(match (self.format, registered.kind.as_str()) {
            (EventFormat::Json, "JSON") => Arc::clone(&self.json),
            (EventFormat::Avro, "AVRO") => {
                let (schema, others) = parse(text, references)?;
                let reader = self.reader.as_ref();
                let depth = self.max_depth;
                Arc::new(Program::compile(&schema, &others, reader, wanted, depth)?)
            }
            (EventFormat::Protobuf, "PROTOBUF") => {
                let only = self.message.as_deref();
                Arc::new(Messages::compile(text, references, only, wanted)?)
            }
            (format, kind) => {
                return Err(format!("is of type {kind}, expected that of {format:?}"));
            }
        })
    }
}

/// The Avro schema of a file, if there is one.
fn avro_schema(settings: &EventSettings) -> Result<Option<Schema>, UnsuitableSettings> {
    let Some(path) = &settings.schema_file else {
        return Ok(None);
    };
    if settings.format != EventFormat::Avro {
        return Ok(None);
    }
    let text = read_text_file(path, DESCRIPTION_FILE).map_err(|error| error.to_string());
    let schema = text.and_then(|text| Schema::parse_str(&text).map_err(|error| error.to_string()));
    schema.map(Some).map_err(|problem| {
        UnsuitableSettings::new(format!(
            "events.schema_file is {path:?}, expected an Avro schema: {problem}"
        ))
    })
}

/// The plan of a message in a descriptor set.
fn message_plan(settings: &EventSettings, wanted: &Node) -> Result<Plan, UnsuitableSettings> {
    let (Some(path), Some(message)) = (&settings.schema_file, &settings.message) else {
        return Err(UnsuitableSettings::new(
            "events.message is not set, expected the full name of a message of events.schema_file",
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
        _ => Err(Reject::malformed(
            "the payload does not begin with a zero and the id of a schema, as a registry's serialisers write it",
        )),
    }
}
