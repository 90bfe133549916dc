//! Waiting for a condition with a deadline.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;

/// Tries until there is a value. The error names `what` was waited for.
pub fn until<T>(
    what: &str,
    timeout: Duration,
    mut attempt: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(value) = attempt()? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            bail!("waited {timeout:?} in vain for {what}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}
