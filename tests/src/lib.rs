//! Shared by the end-to-end tests: real services to test against, and how to wait for them.

pub mod demo;
pub mod disk;
pub mod distributed;
pub mod harness;
pub mod hostile;
pub mod kafka;
pub mod large;
pub mod ledger;
pub mod link;
pub mod orders;
pub mod prometheus;
pub mod python;
pub mod registry;
pub mod state;

use std::path::{Path, PathBuf};

use anyhow::Context;

pub use ostar_harness::{daemon, free_port, gaussians, until};

/// Whether a test fails instead of being skipped when its service cannot be started. CI sets `CI`; elsewhere
/// `OSTARD_REQUIRE_SERVICES` does.
pub fn services_are_required() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set("CI") || set("OSTARD_REQUIRE_SERVICES")
}

/// Whether a program can be started by its name.
pub fn is_on_the_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Folder of what was downloaded for the tests, outside the checkout: `OSTARD_TEST_CACHE`, or `~/.cache/ostard`.
pub fn cache_folder() -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os("OSTARD_TEST_CACHE") {
        return Ok(PathBuf::from(folder));
    }
    let home = std::env::var_os("HOME").context("neither OSTARD_TEST_CACHE nor HOME")?;
    Ok(Path::new(&home).join(".cache/ostard"))
}
