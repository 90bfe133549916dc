//! The metrics at one moment, by name. The page shows the same numbers as Prometheus.

use std::collections::BTreeMap;

use prometheus::proto::{Metric, MetricFamily, MetricType};

use crate::metrics::Metrics;

/// Metric families by name. What was never measured is absent.
pub(super) struct Readings(BTreeMap<String, MetricFamily>);

impl Readings {
    pub(super) fn of(metrics: &Metrics) -> Self {
        let families = metrics.gather().into_iter();
        Self(
            families
                .map(|family| (family.name().to_owned(), family))
                .collect(),
        )
    }

    /// The value with exactly these labels.
    pub(super) fn value(&self, family: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let family = self.0.get(family)?;
        let has = |metric: &&Metric| {
            let own = metric.get_label();
            own.len() == labels.len()
                && labels
                    .iter()
                    .all(|(name, value)| label(metric, name) == *value)
        };
        let metric = family.get_metric().iter().find(has)?;
        Some(number(family, metric))
    }

    /// The sum over all labels; `None` if the family is absent.
    pub(super) fn sum(&self, family: &str) -> Option<f64> {
        let values = self.values(family)?;
        Some(values.sum())
    }

    /// The largest over all labels; `None` if the family is absent.
    pub(super) fn largest(&self, family: &str) -> Option<f64> {
        self.values(family)?.reduce(f64::max)
    }

    /// Values above 0 by a label, the largest first.
    pub(super) fn by_label(&self, family: &str, name: &str) -> Vec<(String, f64)> {
        let Some(family) = self.0.get(family) else {
            return Vec::new();
        };
        let metrics = family.get_metric().iter();
        let mut values: Vec<(String, f64)> = metrics
            .map(|metric| (label(metric, name).to_owned(), number(family, metric)))
            .filter(|(_, value)| *value > 0.0)
            .collect();
        values.sort_by(|left, right| right.1.total_cmp(&left.1));
        values
    }

    fn values(&self, family: &str) -> Option<impl Iterator<Item = f64>> {
        let family = self.0.get(family)?;
        Some(
            family
                .get_metric()
                .iter()
                .map(|metric| number(family, metric)),
        )
    }
}

fn label<'m>(metric: &'m Metric, name: &str) -> &'m str {
    let labels = metric.get_label().iter();
    let mut named = labels.filter(|label| label.name() == name);
    named.next().map_or("", |label| label.value())
}

fn number(family: &MetricFamily, metric: &Metric) -> f64 {
    match family.get_field_type() {
        MetricType::COUNTER => metric.get_counter().get_value(),
        _ => metric.get_gauge().get_value(),
    }
}
