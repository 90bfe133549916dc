//! Metrics of requests: counts, latency, queue, refusals.

use std::time::Instant;

use tonic::Code;

use super::families::{Buckets, metrics, only};
use crate::named::named;

/// A method of `ostar.v1` or of the Open Inference Protocol. The metrics have their names.
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

named! {
    /// A listener that asks for the token.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Listener {
        Grpc = "grpc",
        Control = "control",
        Http = "http",
    }
}

named! {
    /// Why a request was not scored.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum RefusalReason {
        /// Too many inputs of other requests wait.
        QueueFull = "queue_full",
        /// Refused before it was read: too many bytes of other requests are unanswered.
        QueueBytes = "queue_bytes",
        WaitedTooLong = "waited_too_long",
        Stopping = "stopping",
        Failed = "failed",
    }
}

named! {
    /// Why a connection was cut.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum CutReason {
        /// The TLS handshake failed.
        Handshake = "handshake",
        /// The handshake, a header or a frame did not end in time.
        Header = "header_timeout",
        /// No request for a long time.
        Idle = "idle",
        /// Too many connections: it gave way, or found no room.
        Limit = "too_many",
        /// The process had no file handle left.
        Handles = "no_file_handle",
        /// The client did not take its answer.
        Unread = "answer_not_read",
        /// A flood of HTTP/2 frames without content.
        Pings = "ping_flood",
        /// A flood of cancelled requests.
        Resets = "reset_flood",
    }
}

named! {
    /// Why a request was cut while it arrived.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum RequestCut {
        /// Its body made no progress.
        BodyTimeout = "body_timeout",
        /// Newer requests needed its room.
        GaveWay = "gave_way",
    }
}

metrics! {
    struct ServingMetrics {
        requests = counters("ostar_requests_total",
            "Finished requests, by method and status code; each message of PredictStream counts as one.", &["method", "code"]);
        rows = counter("ostar_request_rows_total", "Inputs of answered requests.");
        duration = histogram("ostar_request_duration_seconds",
            "Time to answer a Predict or ModelInfer request or a message of PredictStream, refusals included.", Buckets::Seconds);
        queue = gauge("ostar_request_queue_rows", "Inputs that wait to be scored.");
        refusals = counters_from_zero("ostar_requests_refused_total", "Requests that were refused or failed, by reason.",
            "reason", RefusalReason::NAMED.map(|(name, _)| name));
        unauthenticated = counters_from_zero("ostar_unauthenticated_requests_total",
            "Requests refused because their token was missing or wrong.", "listener", Listener::NAMED.map(|(name, _)| name));
        connections = gauges("ostar_connections", "Open connections, by listener.", &["listener"]);
        connections_cut = counters_from_zero("ostar_connections_cut_total", "Connections that the daemon ended, by reason.",
            "reason", CutReason::NAMED.map(|(name, _)| name));
        requests_cut = counters_from_zero("ostar_requests_cut_total", "Requests that were cut while they arrived, by reason.",
            "reason", RequestCut::NAMED.map(|(name, _)| name));
        request_bytes = gauges("ostar_request_bytes", "Bytes of requests that are arriving, or that wait for their answer.", &["state"]);
        certificate_expiry = measured("ostar_certificate_expiry_seconds",
            "When the certificate in use ends, in seconds since 1970. Absent without TLS.", &[]);
    }
}

/// Counts a request when it is dropped, so that requests whose client went away are counted, too.
#[derive(Debug)]
pub(crate) struct RequestTimer<'a> {
    metrics: &'a ServingMetrics,
    method: Method,
    start: Instant,
    code: Code,
}

// === impl ServingMetrics ===

impl ServingMetrics {
    /// Starts to time a request. It counts as cancelled unless [`RequestTimer::finish`] is called.
    pub(crate) fn start(&self, method: Method) -> RequestTimer<'_> {
        RequestTimer {
            metrics: self,
            method,
            start: Instant::now(),
            code: Code::Cancelled,
        }
    }

    pub(crate) fn refused(&self, reason: RefusalReason) {
        self.refusals.with_label_values(&[reason.name()]).inc();
    }

    pub(crate) fn set_connections(&self, listener: Listener, count: usize) {
        let gauge = self.connections.with_label_values(&[listener.name()]);
        gauge.set(count as i64);
    }

    pub(crate) fn cut_connection(&self, reason: CutReason) {
        let counter = self.connections_cut.with_label_values(&[reason.name()]);
        counter.inc();
    }

    pub(crate) fn cut_request(&self, reason: RequestCut) {
        self.requests_cut.with_label_values(&[reason.name()]).inc();
    }

    pub(crate) fn set_request_bytes(&self, arriving: usize, waiting: usize) {
        for (state, bytes) in [("arriving", arriving), ("waiting", waiting)] {
            let gauge = self.request_bytes.with_label_values(&[state]);
            gauge.set(bytes as i64);
        }
    }

    pub(crate) fn set_certificate_expiry(&self, seconds: i64) {
        only(&self.certificate_expiry).set(seconds as f64);
    }

    pub(crate) fn unauthenticated(&self, listener: Listener) {
        self.unauthenticated
            .with_label_values(&[listener.name()])
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
        let (method, code) = (format!("{:?}", self.method), format!("{:?}", self.code));
        self.metrics
            .requests
            .with_label_values(&[&method, &code])
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
