//! Trials that are ignored where a service cannot be had, and services that trials share.

use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use anyhow::{Context, Result};
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
pub struct Shared<S>(RwLock<Option<S>>);

impl<S> Shared<S> {
    /// Runs a test that leaves the service as it is, beside others of its kind.
    pub fn run(
        &self,
        start: impl FnOnce() -> Result<S>,
        test: impl FnOnce(&S) -> Result<()>,
    ) -> Result<()> {
        let read = || self.0.read().unwrap_or_else(PoisonError::into_inner);
        // Only the first one starts it: who asks for the lock to write waits for all that run.
        if read().is_none() {
            drop(self.started(start)?);
        }
        test(read().as_ref().context("the service was started")?)
    }

    /// Runs a test that changes the service, or that measures seconds, alone.
    pub fn run_alone(
        &self,
        start: impl FnOnce() -> Result<S>,
        test: impl FnOnce(&mut S) -> Result<()>,
    ) -> Result<()> {
        test(
            self.started(start)?
                .as_mut()
                .context("the service was started")?,
        )
    }

    fn started(
        &self,
        start: impl FnOnce() -> Result<S>,
    ) -> Result<RwLockWriteGuard<'_, Option<S>>> {
        // A test that panicked has not harmed the service.
        let mut service = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if service.is_none() {
            *service = Some(start()?);
        }
        Ok(service)
    }
}

impl<S> Default for Shared<S> {
    fn default() -> Self {
        Self(RwLock::new(None))
    }
}
