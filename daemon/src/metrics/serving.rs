//! Metrics of requests: counts, latency, queue, refusals.

use std::time::Instant;

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};
use tonic::Code;

use super::families::{Buckets, Families};

/// A method of `ostar.v1` or of the Open Inference Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Predict,
    PredictStream,
    GetState,
    WatchState,
    /// Over gRPC and REST.
    ModelInfer,
    /// All orders count as one method.
    Control,
}

/// A listener that asks for the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    Grpc,
    Control,
    Http,
}

/// Why a request was not scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// Too many inputs of other requests wait.
    QueueFull,
    /// Refused before it was read: too many bytes of other requests are unanswered.
    QueueBytes,
    WaitedTooLong,
    Stopping,
    Failed,
}

#[derive(Debug)]
pub(crate) struct ServingMetrics {
    requests: IntCounterVec,
    rows: IntCounter,
    duration: Histogram,
    queue: IntGauge,
    refusals: IntCounterVec,
    unauthenticated: IntCounterVec,
}

/// Counts a request when it is dropped, so that requests whose client went away are counted, too.
#[derive(Debug)]
pub(crate) struct RequestTimer<'a> {
    metrics: &'a ServingMetrics,
    method: Method,
    start: Instant,
    code: Code,
}

// === impl Listener ===

impl Listener {
    fn label(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Control => "control",
            Self::Http => "http",
        }
    }
}

// === impl RefusalReason ===

impl RefusalReason {
    pub(super) const ALL: [Self; 5] = [
        Self::QueueFull,
        Self::QueueBytes,
        Self::WaitedTooLong,
        Self::Stopping,
        Self::Failed,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::QueueBytes => "queue_bytes",
            Self::WaitedTooLong => "waited_too_long",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
        }
    }
}

// === impl ServingMetrics ===

impl ServingMetrics {
    pub(super) fn new(families: &Families<'_>) -> Self {
        Self {
            requests: families.counters(
                "ostar_requests_total",
                "Finished requests, by method and status code; each message of PredictStream counts as one.",
                &["method", "code"],
            ),
            rows: families.counter(
                "ostar_request_rows_total",
                "Inputs of answered requests.",
            ),
            duration: families.histogram(
                "ostar_request_duration_seconds",
                "Time to answer a Predict or ModelInfer request or a message of PredictStream, refusals included.",
                Buckets::Seconds,
            ),
            queue: families.gauge(
                "ostar_request_queue_rows",
                "Inputs that wait to be scored.",
            ),
            refusals: families.counters_from_zero(
                "ostar_requests_refused_total",
                "Requests that were refused or failed, by reason.",
                "reason",
                RefusalReason::ALL.map(RefusalReason::label),
            ),
            unauthenticated: families.counters_from_zero(
                "ostar_unauthenticated_requests_total",
                "Requests refused because their token was missing or wrong.",
                "listener",
                [Listener::Grpc, Listener::Control, Listener::Http].map(Listener::label),
            ),
        }
    }

    /// Starts to time a request. It counts as cancelled unless [`RequestTimer::finish`] is called.
    pub(crate) fn start(&self, method: Method) -> RequestTimer<'_> {
        RequestTimer {
            metrics: self,
            method,
            start: Instant::now(),
            code: Code::Cancelled,
        }
    }

    pub(crate) fn answered(&self, rows: usize) {
        self.rows.inc_by(rows as u64);
    }

    pub(crate) fn set_queue(&self, rows: usize) {
        self.queue.set(rows as i64);
    }

    pub(crate) fn refused(&self, reason: RefusalReason) {
        self.refusals.with_label_values(&[reason.label()]).inc();
    }

    pub(crate) fn unauthenticated(&self, listener: Listener) {
        self.unauthenticated
            .with_label_values(&[listener.label()])
            .inc();
    }
}

// === impl RequestTimer ===

impl RequestTimer<'_> {
    pub(crate) fn finish(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for RequestTimer<'_> {
    fn drop(&mut self) {
        let method = match self.method {
            Method::Predict => "Predict",
            Method::PredictStream => "PredictStream",
            Method::GetState => "GetState",
            Method::WatchState => "WatchState",
            Method::ModelInfer => "ModelInfer",
            Method::Control => "Control",
        };
        let code = format!("{:?}", self.code);
        self.metrics
            .requests
            .with_label_values(&[method, &code])
            .inc();
        if matches!(
            self.method,
            Method::Predict | Method::PredictStream | Method::ModelInfer
        ) {
            let seconds = self.start.elapsed().as_secs_f64();
            self.metrics.duration.observe(seconds);
        }
    }
}
