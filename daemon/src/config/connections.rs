//! How much the daemon takes from whoever connects.

use ostar_connectors::settings::{Period, Problem, check_periods};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of connections, over gRPC and HTTP alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct ConnectionSettings {
    /// Largest number of connections of each listener. A new one takes the place of one without a request. Fewer if the
    /// process may open too few files.
    #[schemars(range(min = 1))]
    pub(crate) max: usize,
    /// Longest time for a TLS handshake, and for the header of a request.
    pub(crate) header_timeout: Period,
    /// Longest time in which the body of a request, or the reader of its answer, may make no progress: 16 KiB, or the
    /// end.
    pub(crate) body_timeout: Period,
    /// A connection without a request is closed after this time.
    pub(crate) idle_timeout: Period,
    /// Largest number of requests at once on a gRPC connection.
    #[schemars(range(min = 1))]
    pub(crate) max_streams: u32,
    /// Largest header of a request, in bytes. Clients of gRPC send some hundreds; tokens may have a few thousand.
    #[schemars(range(min = 1024))]
    pub(crate) max_header_bytes: u32,
}

impl ConnectionSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<Problem>) {
        let periods = [
            ("header_timeout", self.header_timeout),
            ("body_timeout", self.body_timeout),
            ("idle_timeout", self.idle_timeout),
        ];
        check_periods("connections", periods, problems);
    }
}
