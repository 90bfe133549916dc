//! Metrics of alarms: each series beside its limit.

use ostar_method::alarms::{AlarmKind, AlarmReport};
use prometheus::{IntCounterVec, IntGaugeVec};

use super::families::{Families, Measured};

#[derive(Debug)]
pub(crate) struct AlarmMetrics {
    statistic: Measured,
    limit: Measured,
    firing: IntGaugeVec,
    raised: IntCounterVec,
}

impl AlarmMetrics {
    pub(super) fn new(families: &Families<'_>) -> Self {
        let labels = ["alarm", "class"];
        Self {
            statistic: families.measured(
                "ostar_alarm_statistic",
                "How far the series has left its usual level: a cumulative sum of surprises.",
                &labels,
            ),
            limit: families.measured(
                "ostar_alarm_limit",
                "The ostar_alarm_statistic at which an alarm is raised.",
                &labels,
            ),
            firing: families.gauges(
                "ostar_alarm_firing",
                "1 while an alarm stands, else 0.",
                &labels,
            ),
            raised: families.counters_from_zero(
                "ostar_alarms_total",
                "Alarms raised.",
                "alarm",
                [AlarmKind::Share(0).name(), AlarmKind::Shape.name()],
            ),
        }
    }

    pub(crate) fn observe(&self, report: &AlarmReport, classes: &[String]) {
        for series in &report.series {
            // The shape is that of all classes.
            let class = series
                .kind
                .class()
                .map_or("", |class| classes[class].as_str());
            let labels = [series.kind.name(), class];
            self.statistic.set(&labels, series.statistic);
            self.limit.set(&labels, series.limit);
            let firing = i64::from(series.firing);
            self.firing.with_label_values(&labels).set(firing);
        }
        for alarm in &report.raised {
            self.raised.with_label_values(&[alarm.kind.name()]).inc();
        }
    }
}
