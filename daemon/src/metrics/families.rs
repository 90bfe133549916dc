//! Creates and registers metrics.

use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
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
pub(super) struct Families<'a>(pub(super) &'a Registry);

/// The handle that a method of [`Families`] gives.
macro_rules! handle {
    (counter) => {
        prometheus::IntCounter
    };
    (counters) => {
        prometheus::IntCounterVec
    };
    (counters_from_zero) => {
        prometheus::IntCounterVec
    };
    (gauge) => {
        prometheus::IntGauge
    };
    (gauges) => {
        prometheus::IntGaugeVec
    };
    (measured) => {
        prometheus::GaugeVec
    };
    (histogram) => {
        prometheus::Histogram
    };
    (histograms) => {
        prometheus::HistogramVec
    };
}

/// Declares metrics: the handle, the name and the help of each in one place. Whoever counts uses the handle; a method is for
/// what needs labels or more than one handle. What stands after `also` are fields that are no metrics: the state holds them.
macro_rules! metrics {
    ($(#[$about:meta])* struct $group:ident {
        $($field:ident = $kind:ident($($argument:expr),+ $(,)?);)+
    } $(also { $($other:ident: $type:ty),+ $(,)? })?) => {
        $(#[$about])*
        #[derive(Debug)]
        pub(crate) struct $group {
            $(pub(crate) $field: $crate::metrics::families::handle!($kind),)+
            $($($other: $type,)+)?
        }

        impl $group {
            pub(super) fn new(families: &$crate::metrics::families::Families<'_>) -> Self {
                Self {
                    $($field: families.$kind($($argument),+),)+
                    $($($other: Default::default(),)+)?
                }
            }
        }
    };
}

pub(super) use {handle, metrics};

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

impl Families<'_> {
    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.register(IntCounter::new(name, help))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
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
        self.register(IntGauge::new(name, help))
    }

    /// Whole numbers by label; a series appears with its first value.
    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    /// Numbers by label; a series appears with its first value.
    pub(super) fn measured(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.register(GaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: Buckets) -> Histogram {
        let options = HistogramOpts::new(name, help).buckets(buckets.bounds());
        self.register(Histogram::with_opts(options))
    }

    pub(super) fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: Buckets,
    ) -> HistogramVec {
        let options = HistogramOpts::new(name, help).buckets(buckets.bounds());
        self.register(HistogramVec::new(options, labels))
    }

    fn register<M: Collector + Clone + 'static>(&self, metric: prometheus::Result<M>) -> M {
        let metric = metric.expect(
            "names and labels are constants of this module, and a test creates all of them",
        );
        let registered = self.0.register(Box::new(metric.clone()));
        registered.expect("names are distinct constants, and a test registers all of them");
        metric
    }
}

/// The only value of a gauge without labels, which is absent until it is set.
pub(super) fn only(gauge: &GaugeVec) -> Gauge {
    gauge.with_label_values::<&str>(&[])
}

/// The sum over all labels.
pub(super) fn sum(counters: &IntCounterVec) -> u64 {
    let families = counters.collect();
    let counted = families.iter().flat_map(|family| family.get_metric());
    counted
        .map(|metric| metric.get_counter().get_value() as u64)
        .sum()
}
