//! Trials that are ignored where a service cannot be had, and services that trials share.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use libtest_mimic::{Failed, Trial};

/// A trial of a test that needs a tool. Where the tool is missing the trial is ignored, with the reason in its name;
/// where services are required it runs and fails.
pub fn trial(
    name: &str,
    missing_tool: Option<&str>,
    test: impl FnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    let skip = missing_tool.is_some() && !crate::services_are_required();
    let name = match missing_tool {
        Some(tool) if skip => format!("{name} (skipped: no {tool})"),
        _ => name.to_owned(),
    };
    let run = move || test().map_err(|error| Failed::from(format!("{error:?}")));
    Trial::test(name, run).with_ignored_flag(skip)
}

/// One service for many tests, which the first of them starts.
#[derive(Debug)]
pub struct Shared<S>(Mutex<Option<S>>);

impl<S> Shared<S> {
    /// Runs a test with the service, one test at a time.
    pub fn run(
        &self,
        start: impl FnOnce() -> Result<S>,
        test: impl FnOnce(&mut S) -> Result<()>,
    ) -> Result<()> {
        // A test that panicked has not harmed the service.
        let mut service = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let service = match service.as_mut() {
            Some(service) => service,
            None => service.insert(start()?),
        };
        test(service)
    }
}

impl<S> Default for Shared<S> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}
