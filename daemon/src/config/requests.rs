//! How much the daemon takes from those who ask for predictions, over gRPC and REST.

use ostar_connectors::settings::Period;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of prediction requests, over gRPC and REST alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RequestSettings {
    /// Largest number of rows in one request.
    pub(crate) max_rows: usize,
    /// Largest request, in bytes: a gRPC message or the body of a REST request.
    pub(crate) max_bytes: usize,
    /// Rows that may wait to be scored. A request that does not fit is refused.
    pub(crate) queue_rows: usize,
    /// gRPC only: a new request is refused before it is read while this many bytes of earlier requests have arrived
    /// and are unanswered. Bytes count as they arrive, whatever length a request announces, so requests that are
    /// read at the same time can exceed it together.
    pub(crate) queue_bytes: usize,
    /// How long a request may wait to be scored before it is refused.
    pub(crate) max_wait: Period,
    /// Largest number of rows that are scored at once. Requests that wait together are scored together.
    pub(crate) max_batch_rows: usize,
    /// Threads that score requests.
    pub(crate) threads: usize,
}

impl Default for RequestSettings {
    fn default() -> Self {
        Self {
            max_rows: 1024,
            max_bytes: 4 << 20,
            queue_rows: 8192,
            queue_bytes: 2 << 20,
            max_wait: Period::from_millis(50),
            max_batch_rows: 1024,
            threads: 1,
        }
    }
}

impl RequestSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<String>) {
        for (key, value) in [
            ("max_rows", self.max_rows),
            ("max_batch_rows", self.max_batch_rows),
            ("queue_bytes", self.queue_bytes),
            ("threads", self.threads),
            ("max_bytes", self.max_bytes),
        ] {
            if value == 0 {
                problems.push(format!("requests.{key} is 0, expected at least 1"));
            }
        }
        if self.queue_rows < self.max_rows {
            problems.push(format!(
                "requests.queue_rows is {}, expected at least requests.max_rows = {}, or the largest requests never fit",
                self.queue_rows, self.max_rows
            ));
        }
        if self.max_wait.get().is_zero() {
            problems.push("requests.max_wait is 0s, expected at least 1ms".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_told_with_its_key() {
        let mut problems = Vec::new();
        RequestSettings::default().validate(&mut problems);
        assert!(problems.is_empty());
        let settings = RequestSettings {
            threads: 0,
            queue_rows: 10,
            max_wait: Period::from_millis(0),
            ..RequestSettings::default()
        };
        settings.validate(&mut problems);
        assert_eq!(
            problems,
            [
                "requests.threads is 0, expected at least 1",
                "requests.queue_rows is 10, expected at least requests.max_rows = 1024, or the largest requests never fit",
                "requests.max_wait is 0s, expected at least 1ms",
            ]
        );
    }
}
