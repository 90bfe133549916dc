//! How much the daemon takes from those who ask for predictions, over gRPC and REST.

use ostar_connectors::settings::{Period, Problem, check_periods};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of prediction requests, over gRPC and REST alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct RequestSettings {
    /// Largest number of rows in one request.
    #[schemars(range(min = 1))]
    pub(crate) max_rows: usize,
    /// Largest request, in bytes: a gRPC message or the body of a REST request.
    #[schemars(range(min = 1))]
    pub(crate) max_bytes: usize,
    /// Rows that may wait to be scored. A request that does not fit is refused.
    pub(crate) queue_rows: usize,
    /// A new request is refused before it is read while this many bytes of earlier requests have arrived whole and are
    /// unanswered.
    #[schemars(range(min = 1))]
    pub(crate) queue_bytes: usize,
    /// Bytes of requests that are still arriving. Over it, the request that has been arriving for longest is cut. At
    /// least `max_bytes`.
    pub(crate) upload_bytes: usize,
    /// How long a request may wait to be scored before it is refused.
    pub(crate) max_wait: Period,
    /// Largest number of rows that are scored at once. Requests that wait together are scored together.
    #[schemars(range(min = 1))]
    pub(crate) max_batch_rows: usize,
    /// Threads that score requests.
    #[schemars(range(min = 1))]
    pub(crate) threads: usize,
}

impl RequestSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<Problem>) {
        if self.queue_rows < self.max_rows {
            let hint = format!(
                "expected at least requests.max_rows = {}, or the largest requests never fit",
                self.max_rows
            );
            problems.push(Problem::value("requests.queue_rows", self.queue_rows, hint));
        }
        if self.upload_bytes < self.max_bytes {
            let hint = format!(
                "expected at least requests.max_bytes = {}, or the largest requests never arrive",
                self.max_bytes
            );
            let key = "requests.upload_bytes";
            problems.push(Problem::value(key, self.upload_bytes, hint));
        }
        check_periods("requests", [("max_wait", self.max_wait)], problems);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_told_with_its_key() {
        let mut problems = Vec::new();
        RequestSettings::default().validate(&mut problems);
        assert!(problems.is_empty(), "{problems:?}");
        let settings = RequestSettings {
            queue_rows: 10,
            upload_bytes: 100,
            max_wait: Period::from_millis(0),
            ..RequestSettings::default()
        };
        settings.validate(&mut problems);
        let told: Vec<_> = problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            told,
            [
                "requests.queue_rows is 10, expected at least requests.max_rows = 1024, or the largest requests never fit",
                "requests.upload_bytes is 100, expected at least requests.max_bytes = 4194304, or the largest requests never arrive",
                "requests.max_wait is \"0s\", expected at least 1ms",
            ]
        );
    }
}
