//! Stands in for schemas in builds without the feature `schemas`.

use std::{convert::Infallible, time::Duration};

use super::{
    Cell, EventFormat, EventSettings, Reject,
    decoder::Header,
    layout::{Layout, UnsuitableSettings},
    places::Node,
};

/// There is none.
#[derive(Debug)]
pub(super) struct Schemas(Infallible);

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
    pub(super) fn new(
        settings: &EventSettings,
        _: &Layout,
        _: &Node,
    ) -> Result<Option<Self>, UnsuitableSettings> {
        if settings.format == EventFormat::Avro
            || settings.has_own_message()
            || settings.registry.url.is_some()
        {
            let problem = "events.format is avro, or has a registry or a descriptor set, which this build cannot read: build with --features schemas";
            return Err(UnsuitableSettings::new(problem.into()));
        }
        Ok(None)
    }

    pub(super) fn to_fetch(&self, _: &[u8]) -> Option<u32> {
        match self.0 {}
    }

    pub(super) fn fetch(&self, _: u32, _: u32) -> Result<(), RegistryAway> {
        match self.0 {}
    }

    pub(super) fn json_body<'p>(&self, _: &'p [u8]) -> Result<&'p [u8], Reject> {
        match self.0 {}
    }

    pub(super) fn fields(&self, _: &[u8]) -> Result<Vec<Cell<'static>>, Reject> {
        match self.0 {}
    }

    pub(super) fn read<T>(
        &self,
        _: &[u8],
        _: impl FnOnce(Header, Vec<Cell<'_>>, &[f32], bool) -> Result<T, Reject>,
    ) -> Result<T, Reject> {
        match self.0 {}
    }
}
