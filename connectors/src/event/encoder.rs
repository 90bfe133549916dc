//! Encodes rows as payloads of records, for `replay`, the demo and tests.

use std::sync::Arc;

use ostar_bundle::Input;

use super::{
    EventSettings, Row,
    formats::{self, Format},
    layout::{Layout, UnsuitableSettings},
    places,
};

/// Encodes events as a [`Decoder`](super::Decoder) with the same settings reads them.
#[derive(Debug, Clone)]
pub struct Encoder {
    format: Arc<dyn Format>,
}

impl Encoder {
    /// Fails if events with these settings cannot carry the bundle's input.
    pub fn new(
        settings: &EventSettings,
        input: &Input,
        classes: usize,
    ) -> Result<Self, UnsuitableSettings> {
        let layout = Layout::new(input, classes);
        layout.check_settings(settings)?;
        if settings.has_schema() {
            return Err(UnsuitableSettings::new(
                "events.format is avro, or has a registry or a descriptor set, expected another one: ostard reads such events and does not \
                 write them",
            ));
        }
        let wanted = places::tree(settings, &layout)?;
        let format = formats::plain(settings, &layout, wanted)?;
        Ok(Self { format })
    }

    /// Encodes an event without checking the row. Raw events carry neither id nor time: send those as the record's key
    /// and time stamp.
    pub fn encode(&self, id: Option<&str>, time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        self.format.write(id, time_ms, row)
    }
}
