//! How much the daemon takes from whoever connects.

use ostar_connectors::settings::{Period, Problem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of connections, over gRPC and HTTP alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct ConnectionSettings {
    /// Largest number of connections of each listener. A new one takes the place of one without a request. Fewer if the
    /// process may open too few files.
    pub(crate) max: usize,
    /// Longest time for a TLS handshake, and for the header of a request.
    pub(crate) header_timeout: Period,
    /// Longest time in which the body of a request, or the reader of its answer, may make no progress: 16 KiB, or the
    /// end.
    pub(crate) body_timeout: Period,
    /// A connection without a request is closed after this time.
    pub(crate) idle_timeout: Period,
    /// Largest number of requests at once on a gRPC connection.
    pub(crate) max_streams: u32,
    /// Largest header of a request, in bytes.
    pub(crate) max_header_bytes: u32,
}

/// Clients of gRPC send some hundreds of bytes; tokens may have a few thousand.
const LEAST_HEADER: u32 = 1024;

impl ConnectionSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<Problem>) {
        if self.max == 0 {
            let hint = "expected at least 1";
            problems.push(Problem::value("connections.max", self.max, hint));
        }
        if self.max_streams == 0 {
            let hint = "expected at least 1";
            let key = "connections.max_streams";
            problems.push(Problem::value(key, self.max_streams, hint));
        }
        if self.max_header_bytes < LEAST_HEADER {
            let hint = format!("expected at least {LEAST_HEADER}");
            let key = "connections.max_header_bytes";
            problems.push(Problem::value(key, self.max_header_bytes, hint));
        }
        for (key, period) in [
            ("header_timeout", self.header_timeout),
            ("body_timeout", self.body_timeout),
            ("idle_timeout", self.idle_timeout),
        ] {
            if period.get().is_zero() {
                let key = format!("connections.{key}");
                problems.push(Problem::value(key, period, "expected at least 1ms"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_told_with_its_key() {
        let mut problems = Vec::new();
        ConnectionSettings::default().validate(&mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        let settings = ConnectionSettings {
            max: 0,
            max_streams: 0,
            max_header_bytes: 10,
            body_timeout: Period::from_millis(0),
            ..ConnectionSettings::default()
        };
        settings.validate(&mut problems);
        let told: Vec<_> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            told,
            [
                "connections.max is 0, expected at least 1",
                "connections.max_streams is 0, expected at least 1",
                "connections.max_header_bytes is 10, expected at least 1024",
                "connections.body_timeout is \"0s\", expected at least 1ms",
            ]
        );
    }
}
