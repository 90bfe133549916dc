//! Log lines, on the error stream: what commands answer goes to the other one.

use std::io::{self, IsTerminal};

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogSettings};

/// Starts logging, once for the process. `RUST_LOG` goes over the configured filter, as people expect.
pub(crate) fn start(settings: &LogSettings, rust_log: Option<&str>) -> Result<()> {
    let filter = filter(settings, rust_log)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    let started = match settings.format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

fn filter(settings: &LogSettings, rust_log: Option<&str>) -> Result<EnvFilter> {
    match rust_log.filter(|text| !text.is_empty()) {
        Some(text) => EnvFilter::try_new(text)
            .with_context(|| format!("RUST_LOG is {text:?}, expected a level like \"info\"")),
        None => EnvFilter::try_new(&settings.filter)
            .with_context(|| format!("log.filter is {:?}", settings.filter)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_goes_over_the_configured_filter() {
        let settings = LogSettings::default();
        let told = |rust_log| filter(&settings, rust_log).unwrap().to_string();
        assert_eq!(told(None), "info");
        assert_eq!(told(Some("")), "info");
        assert_eq!(told(Some("debug,rdkafka=warn")), "rdkafka=warn,debug");
        let refused = filter(&settings, Some("loud=!")).unwrap_err();
        assert!(refused.to_string().starts_with("RUST_LOG is \"loud=!\""));
    }
}
