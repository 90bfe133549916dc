//! Metrics of the process: version, start, and how fast it follows a learner.

use super::families::{Buckets, Families, metrics, only};
use crate::clock::now_ms;

metrics! {
    struct ProcessMetrics {
        build = measured("ostar_build_info", "Always 1; the labels carry the version and the model's name.", &["version", "model"]);
        start = measured("ostar_start_time_seconds", "When the process started, in seconds since 1970.", &[]);
        snapshot_delay = histogram("ostar_snapshot_delay_seconds",
            "From the publication of a snapshot by the learner, by its clock, until this process served it.", Buckets::Seconds);
    }
}

impl ProcessMetrics {
    /// Of a process that starts now.
    pub(super) fn started(families: &Families<'_>, model: &str) -> Self {
        let metrics = Self::new(families);
        let build = [env!("CARGO_PKG_VERSION"), model];
        metrics.build.with_label_values(&build).set(1.0);
        only(&metrics.start).set(now_ms() as f64 / 1_000.0);
        metrics
    }

    /// A snapshot that was published at this time is served from now on.
    pub(crate) fn observe_snapshot(&self, published_at_ms: u64) {
        let delay = now_ms().saturating_sub(published_at_ms) as f64 / 1_000.0;
        self.snapshot_delay.observe(delay);
    }
}
