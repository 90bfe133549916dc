//! What the end-to-end tests share: real services to test against, and how to wait for them.

pub mod kafka;
mod wait;

pub use wait::until;

/// Whether services that cannot be started fail the tests instead of skipping them: CI never skips.
pub fn services_are_required() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    set("CI") || set("OSTARD_REQUIRE_SERVICES")
}
