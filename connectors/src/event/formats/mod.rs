//! What a format of events has to be able to do, and which format events with some settings have.

#[cfg(feature = "schemas")]
mod avro;
#[cfg(feature = "schemas")]
mod bytes;
mod json;
#[cfg(feature = "schemas")]
mod message;
mod ostar_v1;
mod raw;
#[cfg(feature = "schemas")]
mod schemas;
mod wire;

use std::{fmt::Debug, sync::Arc};

pub(crate) use self::json::JsonKeys;
pub(super) use self::ostar_v1::Inputs;
#[cfg(feature = "schemas")]
use self::schemas::open as with_schema;
use self::{json::Json, ostar_v1::OstarV1, raw::Raw};
use super::{
    Cell, EventFormat, EventSettings, RegistryAway, Reject, Row,
    collector::Collector,
    layout::{Layout, UnsuitableSettings},
    places::{self, Node},
};

/// A format of events, for the input of one bundle.
pub(super) trait Format: Debug + Send + Sync {
    /// Gives everything that is wanted of an event to the collector.
    fn read<'p>(&'p self, payload: &'p [u8], event: &mut Collector<'_, 'p>) -> Result<(), Reject>;

    /// An event with this row, not checked. Only for formats without schemas.
    fn write(&self, _id: Option<&str>, _time_ms: Option<i64>, _row: &Row) -> Vec<u8> {
        Vec::new()
    }

    /// All values that a path could name, wanted or not; none if values have no names in the payload.
    fn leaves(&self, _payload: &[u8]) -> Vec<Leaf> {
        Vec::new()
    }
}

/// A value of an event, and its path as `events.fields` takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// Keys between dots, or a JSON pointer.
    pub path: String,
    /// The value.
    pub cell: Cell<'static>,
}

/// Formats by the ids of schemas that payloads begin with.
pub(super) trait FormatsById: Debug + Send + Sync {
    /// The id of a payload whose schema has to be fetched before the payload can be read.
    fn to_fetch(&self, payload: &[u8]) -> Option<u32>;

    /// Fetches a schema; `tries` is how often that failed before.
    fn fetch(&self, id: u32, tries: u32) -> Result<(), RegistryAway>;

    /// The format of a payload, and the payload behind the id.
    fn format_of<'p>(&self, payload: &'p [u8]) -> Result<(Arc<dyn Format>, &'p [u8]), Reject>;
}

/// Where the formats of payloads come from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// All payloads have this one.
    One(Arc<dyn Format>),
    #[cfg_attr(
        not(feature = "schemas"),
        expect(dead_code, reason = "builds without schemas know no registry")
    )]
    Registry(Arc<dyn FormatsById>),
}

impl Source {
    pub(super) fn new(
        settings: &EventSettings,
        layout: &Layout,
    ) -> Result<Self, UnsuitableSettings> {
        layout.check_settings(settings)?;
        let wanted = places::tree(settings, layout)?;
        if settings.has_schema() {
            return with_schema(settings, layout, wanted);
        }
        plain(settings, layout, wanted).map(Self::One)
    }

    /// Calls `read` with the format of a payload, and with what that format reads.
    pub(super) fn with<T>(
        &self,
        payload: &[u8],
        read: impl FnOnce(&dyn Format, &[u8]) -> Result<T, Reject>,
    ) -> Result<T, Reject> {
        match self {
            Self::One(format) => read(format.as_ref(), payload),
            Self::Registry(registry) => {
                let (format, body) = registry.format_of(payload)?;
                read(format.as_ref(), body)
            }
        }
    }
}

/// The formats whose payloads need no schema.
pub(super) fn plain(
    settings: &EventSettings,
    layout: &Layout,
    wanted: Node,
) -> Result<Arc<dyn Format>, UnsuitableSettings> {
    Ok(match settings.format {
        EventFormat::Json => Arc::new(Json::new(settings, layout, wanted)),
        EventFormat::Protobuf => Arc::new(OstarV1::new(settings, layout)),
        EventFormat::Raw => Arc::new(Raw::new(layout)),
        EventFormat::Avro => {
            let problem = "events.format is avro, expected events.registry.url or events.schema_file to be set";
            return Err(UnsuitableSettings::new(problem));
        }
    })
}

#[cfg(not(feature = "schemas"))]
fn with_schema(_: &EventSettings, _: &Layout, _: Node) -> Result<Source, UnsuitableSettings> {
    let problem = "events.format is avro, or has a registry or a descriptor set, which this build cannot read: build with --features schemas";
    Err(UnsuitableSettings::new(problem))
}
