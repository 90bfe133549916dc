//! Metrics of ingest: events, lag, and the connection to the broker.

use std::time::Duration;

use ostar_connectors::{event::RejectReason, kafka::LossCause};
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::families::{Buckets, Families, Measured};

#[derive(Debug)]
pub(crate) struct IngestMetrics {
    accepted: IntCounter,
    rejected: IntCounter,
    reasons: IntCounterVec,
    tombstones: IntCounterVec,
    lag_records: Measured,
    lag_seconds: Measured,
    offsets_lost: IntCounter,
    rewinds: IntCounterVec,
    consumer_errors: IntCounterVec,
    broker_connected: IntGauge,
    consumption_stopped: IntGauge,
    waiting: IntGaugeVec,
    delay: Histogram,
}

impl IngestMetrics {
    pub(super) fn new(families: &Families<'_>) -> Self {
        let events = families.counters(
            "ostar_events_total",
            "Events read, by outcome.",
            &["outcome"],
        );
        Self {
            accepted: events.with_label_values(&["accepted"]),
            rejected: events.with_label_values(&["rejected"]),
            reasons: families.counters_from_zero(
                "ostar_events_rejected_total",
                "Events that could not be used, by reason.",
                "reason",
                RejectReason::ALL.map(RejectReason::as_str),
            ),
            tombstones: families.counters_from_zero(
                "ostar_tombstones_total",
                "Records without a payload, which are no events, samples or labels and were passed over.",
                "input",
                ["events", "samples", "labels"],
            ),
            lag_records: families.measured(
                "ostar_consumer_lag_records",
                "Records of the partition that are not read yet.",
                &["partition"],
            ),
            lag_seconds: families.measured(
                "ostar_consumer_lag_seconds",
                "Age of the last record read, by its time stamp; 0 if nothing is left to read.",
                &["partition"],
            ),
            offsets_lost: families.counter(
                "ostar_offsets_lost_total",
                "Records that the broker deleted before they were read (retention, or a recreated topic).",
            ),
            rewinds: families.counters_from_zero(
                "ostar_topic_rewinds_total",
                "Partitions whose offsets began anew: the topic was recreated, or the end of its log was lost.",
                "cause",
                [LossCause::Recreated, LossCause::Truncated].map(LossCause::as_str),
            ),
            consumer_errors: families.counters(
                "ostar_consumer_errors_total",
                "Errors of the consumer, by librdkafka's code. It recovers from most by itself.",
                &["code"],
            ),
            broker_connected: families.gauge(
                "ostar_broker_connected",
                "1 if a broker answers, else 0.",
            ),
            consumption_stopped: families.gauge(
                "ostar_consumption_stopped",
                "1 while reading is stopped after too many bad events, until `ostard ctl read-on` or a restart; else 0.",
            ),
            waiting: families.gauges(
                "ostar_waiting_chunks",
                "Chunks that wait for the learner or the outputs; at 16, reading waits, too.",
                &["part"],
            ),
            delay: families.histogram(
                "ostar_event_delay_seconds",
                "Time from an event's time stamp until it was read.",
                Buckets::Delays,
            ),
        }
    }

    pub(crate) fn accepted(&self, events: usize) {
        self.accepted.inc_by(events as u64);
    }

    /// `reason` is a `RejectReason`.
    pub(crate) fn rejected(&self, reason: &'static str) {
        self.rejected.inc();
        self.reasons.with_label_values(&[reason]).inc();
    }

    /// `input` is "events", "samples" or "labels".
    pub(crate) fn tombstone(&self, input: &'static str) {
        self.tombstones.with_label_values(&[input]).inc();
    }

    pub(crate) fn set_lag(&self, partition: i32, records: i64, behind: Option<Duration>) {
        let partition = partition.to_string();
        self.lag_records.set(&[&partition], records as f64);
        let seconds = behind.map(|behind| behind.as_secs_f64());
        self.lag_seconds.set_known(&[&partition], seconds);
    }

    /// Another process reads the partition.
    pub(crate) fn forget_lag(&self, partition: i32) {
        let partition = partition.to_string();
        self.lag_records.set_known(&[&partition], None);
        self.lag_seconds.set_known(&[&partition], None);
    }

    pub(crate) fn offsets_lost(&self, records: u64) {
        self.offsets_lost.inc_by(records);
    }

    pub(crate) fn rewound(&self, cause: LossCause) {
        self.rewinds.with_label_values(&[cause.as_str()]).inc();
    }

    pub(crate) fn consumer_errors(&self, code: &str, count: u64) {
        self.consumer_errors
            .with_label_values(&[code])
            .inc_by(count);
    }

    pub(crate) fn set_broker_connected(&self, connected: bool) {
        self.broker_connected.set(connected.into());
    }

    pub(crate) fn set_consumption_stopped(&self, stopped: bool) {
        self.consumption_stopped.set(stopped.into());
    }

    /// `part` is "learner" or "outputs".
    pub(crate) fn set_waiting(&self, part: &'static str, chunks: usize) {
        self.waiting.with_label_values(&[part]).set(chunks as i64);
    }

    pub(crate) fn observe_delay(&self, delay: Duration) {
        self.delay.observe(delay.as_secs_f64());
    }
}
