//! Creates and registers metrics.

use prometheus::{
    GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector,
};

/// Seconds, from a scored row (50 microseconds) to a written checkpoint (10 seconds).
const SECONDS: [f64; 17] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0,
];

/// Seconds that events take to arrive, from a live stream to a replay of weeks.
const DELAYS: [f64; 12] = [
    0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 3600.0, 21_600.0, 86_400.0, 604_800.0,
];

/// Rows of a batch, in powers of two.
const ROWS: [f64; 13] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0,
];

/// Bucket bounds of a histogram.
#[derive(Debug, Clone, Copy)]
pub(super) enum Buckets {
    Seconds,
    Delays,
    Rows,
}

/// Creates metric families in one registry.
pub(super) struct Families<'a> {
    registry: &'a Registry,
    /// Shared by all [`Measured`] values.
    non_finite: IntCounter,
}

/// A gauge whose value may be unknown. One that was never measured, or is not finite, is absent rather than 0 or NaN.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    values: GaugeVec,
    non_finite: IntCounter,
}

// === impl Buckets ===

impl Buckets {
    fn bounds(self) -> Vec<f64> {
        match self {
            Self::Seconds => SECONDS.to_vec(),
            Self::Delays => DELAYS.to_vec(),
            Self::Rows => ROWS.to_vec(),
        }
    }
}

// === impl Families ===

impl<'a> Families<'a> {
    pub(super) fn new(registry: &'a Registry) -> Self {
        let non_finite = IntCounter::new(
            "ostar_non_finite_values_total",
            "Measured values that were NaN or infinite, and therefore left out of the other metrics.",
        );
        let non_finite = register(registry, non_finite);
        Self {
            registry,
            non_finite,
        }
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        register(self.registry, IntCounter::new(name, help))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        register(
            self.registry,
            IntCounterVec::new(Opts::new(name, help), labels),
        )
    }

    /// Counters by one label whose values are known beforehand. All start at 0, because Prometheus' `increase` does not
    /// see the first increment of a series that begins at 1.
    pub(super) fn counters_from_zero(
        &self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = &'static str>,
    ) -> IntCounterVec {
        let counters = self.counters(name, help, &[label]);
        for value in values {
            counters.with_label_values(&[value]);
        }
        counters
    }

    /// A whole number, 0 from the start.
    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        register(self.registry, IntGauge::new(name, help))
    }

    /// Whole numbers by label; a series appears with its first value.
    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        register(
            self.registry,
            IntGaugeVec::new(Opts::new(name, help), labels),
        )
    }

    pub(super) fn measured(&self, name: &str, help: &str, labels: &[&str]) -> Measured {
        Measured {
            values: register(self.registry, GaugeVec::new(Opts::new(name, help), labels)),
            non_finite: self.non_finite.clone(),
        }
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: Buckets) -> Histogram {
        let options = HistogramOpts::new(name, help).buckets(buckets.bounds());
        register(self.registry, Histogram::with_opts(options))
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: Buckets,
    ) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(buckets.bounds());
        register(self.registry, HistogramVec::new(options, labels))
    }
}

fn register<M: Collector + Clone + 'static>(
    registry: &Registry,
    metric: prometheus::Result<M>,
) -> M {
    let metric = metric
        .expect("names and labels are constants of this module, and a test creates all of them");
    let registered = registry.register(Box::new(metric.clone()));
    registered.expect("names are distinct constants, and a test registers all of them");
    metric
}

// === impl Measured ===

impl Measured {
    /// Sets the value. One that is not finite is counted, and removes the last one.
    pub(super) fn set(&self, labels: &[&str], value: f64) {
        if value.is_finite() {
            self.values.with_label_values(labels).set(value);
        } else {
            self.non_finite.inc();
            self.clear(labels);
        }
    }

    /// Sets the value, or removes the last one if there is none. That is not counted as an error.
    pub(super) fn set_known(&self, labels: &[&str], value: Option<f64>) {
        match value {
            Some(value) => self.set(labels, value),
            None => self.clear(labels),
        }
    }

    fn clear(&self, labels: &[&str]) {
        // Fails if there was no value, which is what is wanted.
        let _ = self.values.remove_label_values(labels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_finite_is_counted_and_left_out() {
        let registry = Registry::new();
        let families = Families::new(&registry);
        let alone = families.measured("alone", "One value.", &[]);
        let labelled = families.measured("labelled", "Values.", &["class"]);
        let names = |registry: &Registry| -> Vec<String> {
            let families = registry.gather();
            let names = families.iter().map(|family| family.name().to_owned());
            names.filter(|name| !name.starts_with("ostar_")).collect()
        };
        assert!(names(&registry).is_empty(), "nothing was measured yet");
        alone.set(&[], 1.5);
        labelled.set(&["spam"], 0.5);
        labelled.set(&["ham"], f64::NAN);
        assert_eq!(families.non_finite.get(), 1);
        assert_eq!(names(&registry), ["alone", "labelled"]);
        alone.set(&[], f64::INFINITY);
        labelled.set_known(&["spam"], None);
        assert_eq!(families.non_finite.get(), 2);
        assert!(names(&registry).is_empty());
    }
}
