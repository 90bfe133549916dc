//! Metrics of scoring, for the stream and for requests.

use std::time::Duration;

use prometheus::{Histogram, IntCounter};

use super::{
    classes::ClassLabels,
    families::{Buckets, Families, metrics},
};

/// What a prediction is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScoringPath {
    Stream,
    /// A request over gRPC or REST.
    Request,
}

#[derive(Debug)]
pub(crate) struct ScoringMetrics {
    stream: PathMetrics,
    request: PathMetrics,
}

#[derive(Debug)]
struct PathMetrics {
    /// In the bundle's order of classes. The rest share a counter.
    predictions: Vec<IntCounter>,
    duration: Histogram,
    rows: Histogram,
    clipped: IntCounter,
}

metrics! {
    struct ByPath {
        predictions = counters("ostar_predictions_total",
            "Predictions made, by path (stream or request) and most probable class.", &["path", "class"]);
        duration = histograms("ostar_scoring_duration_seconds", "Time to score one batch.", &["path"], Buckets::Seconds);
        rows = histograms("ostar_scoring_batch_rows", "Rows of one scored batch.", &["path"], Buckets::Rows);
        clipped = counters("ostar_clipped_values_total",
            "Numbers of events and requests that were beyond the bundle's bounds and were clipped to them.", &["path"]);
    }
}

impl ScoringMetrics {
    pub(super) fn new(families: &Families<'_>, classes: &ClassLabels) -> Self {
        let all = ByPath::new(families);
        let path = |name: &str| {
            let counters = (0..classes.names.len()).map(|class| {
                all.predictions
                    .with_label_values(&[name, classes.label(class)])
            });
            PathMetrics {
                predictions: counters.collect(),
                duration: all.duration.with_label_values(&[name]),
                rows: all.rows.with_label_values(&[name]),
                clipped: all.clipped.with_label_values(&[name]),
            }
        };
        Self {
            stream: path("stream"),
            request: path("request"),
        }
    }

    /// Counts a scored batch. `predicted` are the most probable classes of its rows, `clipped` is how many of its numbers
    /// were clipped.
    pub(crate) fn observe(
        &self,
        path: ScoringPath,
        predicted: impl IntoIterator<Item = usize>,
        clipped: usize,
        duration: Duration,
    ) {
        let path = match path {
            ScoringPath::Stream => &self.stream,
            ScoringPath::Request => &self.request,
        };
        let mut rows = 0.0;
        for class in predicted {
            path.predictions[class].inc();
            rows += 1.0;
        }
        path.rows.observe(rows);
        path.clipped.inc_by(clipped as u64);
        path.duration.observe(duration.as_secs_f64());
    }
}
