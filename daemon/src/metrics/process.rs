//! Metrics of the process: version, start, serving mode, readiness.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Histogram, IntGauge, IntGaugeVec};

use super::families::{Buckets, Families, Measured};
use crate::{
    clock::now_ms,
    current::{Current, ServingMode},
    health::{CONDITIONS, Health},
    status::Status,
};

#[derive(Debug)]
pub(crate) struct ProcessMetrics {
    mode: IntGaugeVec,
    device: IntGaugeVec,
    epoch: IntGauge,
    step: IntGauge,
    ready: IntGauge,
    conditions: IntGaugeVec,
    paused: IntGauge,
    standby: IntGauge,
    role: IntGaugeVec,
    state_age: Measured,
    snapshot_age: Measured,
    sample_share: Measured,
    snapshot_delay: Histogram,
}

impl ProcessMetrics {
    pub(super) fn new(families: &Families<'_>, model: &str) -> Self {
        let build = families.measured(
            "ostar_build_info",
            "Always 1; the labels carry the version and the model's name.",
            &["version", "model"],
        );
        build.set(&[env!("CARGO_PKG_VERSION"), model], 1.0);
        set_now(&families.measured(
            "ostar_start_time_seconds",
            "When the process started, in seconds since 1970.",
            &[],
        ));
        Self {
            mode: families.gauges(
                "ostar_serving_mode",
                "1 for the current serving mode, 0 for the others.",
                &["mode"],
            ),
            device: families.gauges(
                "ostar_learner_device_info",
                "Always 1; the label carries learner.device, where the learner works.",
                &["device"],
            ),
            epoch: families.gauge(
                "ostar_model_version_epoch",
                "Epoch of the served state: starts of the learner.",
            ),
            step: families.gauge(
                "ostar_model_version_step",
                "Step of the served state: alignment steps, or blocks of a black box.",
            ),
            ready: families.gauge("ostar_ready", "1 if /readyz answers 200, else 0."),
            conditions: families.gauges(
                "ostar_condition",
                "1 while a part has a problem although predictions are served, else 0. /status says which problem.",
                &["condition"],
            ),
            paused: families.gauge("ostar_paused", "1 while learning is paused, else 0."),
            standby: families.gauge(
                "ostar_standby",
                "1 while another process learns and this one stands by and only serves, else 0.",
            ),
            role: families.gauges(
                "ostar_role_info",
                "Always 1; the label carries the role: all, scorer or learner.",
                &["role"],
            ),
            state_age: families.measured(
                "ostar_state_age_seconds",
                "Time since the learner last wrote to the state topic, by its clock; of processes that follow one.",
                &[],
            ),
            snapshot_age: families.measured(
                "ostar_snapshot_age_seconds",
                "Time since the snapshot that is served was published; of processes that follow a learner.",
                &[],
            ),
            snapshot_delay: families.histogram(
                "ostar_snapshot_delay_seconds",
                "From the publication of a snapshot by the learner, by its clock, until this process served it.",
                Buckets::Seconds,
            ),
            sample_share: families.measured(
                "ostar_sample_share",
                "Share of the events that scorers pass on to the learner; of processes that follow one.",
                &[],
            ),
        }
    }

    /// A snapshot that was published at this time is served from now on.
    pub(crate) fn observe_snapshot(&self, published_at_ms: u64) {
        let delay = now_ms().saturating_sub(published_at_ms) as f64 / 1_000.0;
        self.snapshot_delay.observe(delay);
    }

    /// Called at every scrape: these values are read, not kept up to date.
    pub(crate) fn observe(&self, current: &Current, health: &Health, status: &Status) {
        let mode = current.mode();
        for (name, value) in ServingMode::NAMED {
            self.mode
                .with_label_values(&[name])
                .set((value == mode).into());
        }
        let device = status.device.to_string();
        self.device.with_label_values(&[device.as_str()]).set(1);
        let version = current.load().version;
        self.epoch.set(version.epoch as i64);
        self.step.set(version.step as i64);
        self.ready.set(health.readiness().is_ok().into());
        let conditions = health.conditions();
        for part in CONDITIONS {
            let set = conditions.contains_key(part);
            self.conditions.with_label_values(&[part]).set(set.into());
        }
        self.paused.set(status.paused.into());
        self.standby.set(status.standby.into());
        self.role.with_label_values(&[status.role.name()]).set(1);
        // A process that learns itself follows nobody.
        let age = |at_ms: Option<u64>| Some(now_ms().saturating_sub(at_ms?) as f64 / 1_000.0);
        self.state_age
            .set_known(&[], age(status.state_written_at_ms));
        self.snapshot_age.set_known(&[], age(status.snapshot_at_ms));
        self.sample_share.set_known(&[], status.sample_share);
    }
}

/// Sets the gauge to the present time, in seconds since 1970.
pub(super) fn set_now(gauge: &Measured) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    gauge.set_known(&[], now.ok().map(|now| now.as_secs_f64()));
}
