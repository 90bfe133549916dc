//! Metrics of the model's inputs beside training, field by field.

use ostar_method::alarms::FieldStatus;
use prometheus::{IntCounter, IntGauge, IntGaugeVec};

use super::families::{Families, Measured};

/// The number of series is bounded: at most a hundred fields are watched.
#[derive(Debug)]
pub(crate) struct InputMetrics {
    missing: Measured,
    unknown: Measured,
    beyond: Measured,
    distance: Measured,
    noise_floor: Measured,
    statistic: Measured,
    limit: Measured,
    broken: IntGaugeVec,
    watched: IntGauge,
    alarms: IntCounter,
}

impl InputMetrics {
    pub(super) fn new(families: &Families<'_>) -> Self {
        let labels = ["field"];
        Self {
            missing: families.measured(
                "ostar_input_missing_ratio",
                "Share of events without the field, over about ten blocks.",
                &labels,
            ),
            unknown: families.measured(
                "ostar_input_unknown_ratio",
                "Share of categories or words that training did not have.",
                &labels,
            ),
            beyond: families.measured(
                "ostar_input_beyond_ratio",
                "Share of numbers below or above all of training.",
                &labels,
            ),
            distance: families.measured(
                "ostar_input_distance",
                "Total variation distance between the field and the nearest mixture of training's classes.",
                &labels,
            ),
            noise_floor: families.measured(
                "ostar_input_noise_floor",
                "What chance alone makes of ostar_input_distance.",
                &labels,
            ),
            statistic: families.measured(
                "ostar_input_statistic",
                "How far the distance of the field has risen above its usual level: a cumulative sum of surprises.",
                &labels,
            ),
            limit: families.measured(
                "ostar_input_limit",
                "The ostar_input_statistic at which the field counts as broken.",
                &labels,
            ),
            broken: families.gauges(
                "ostar_input_broken",
                "1 while the field is not what training had, else 0.",
                &labels,
            ),
            watched: families.gauge(
                "ostar_inputs_watched",
                "Fields that are compared with training; 0 if the bundle does not say what training had.",
            ),
            alarms: families.counter("ostar_input_alarms_total", "Fields that broke."),
        }
    }

    pub(crate) fn observe(&self, fields: &[FieldStatus], broken: usize) {
        self.watched.set(fields.len() as i64);
        self.alarms.inc_by(broken as u64);
        for field in fields {
            let report = &field.report;
            let labels = [report.name.as_str()];
            self.missing.set(&labels, report.missing);
            self.unknown.set_known(&labels, report.unknown);
            self.beyond.set_known(&labels, report.beyond);
            self.distance.set(&labels, report.distance);
            self.noise_floor.set(&labels, report.noise_floor);
            self.statistic.set(&labels, field.statistic);
            let limit = Some(field.limit).filter(|limit| limit.is_finite());
            self.limit.set_known(&labels, limit);
            let broken = i64::from(field.broken);
            self.broken.with_label_values(&labels).set(broken);
        }
    }
}
