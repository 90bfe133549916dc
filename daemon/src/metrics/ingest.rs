//! Metrics of ingest: events, lag, and the connection to the broker.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use ostar_connectors::{event::RejectReason, kafka::LossCause};
use parking_lot::Mutex;

use super::families::{Buckets, metrics};
use crate::proto::{PartitionLag, StreamState};

metrics! {
    struct IngestMetrics {
        events = counters_from_zero("ostar_events_total", "Events read, by outcome.", "outcome", ["accepted", "rejected"]);
        reasons = counters_from_zero("ostar_events_rejected_total", "Events that could not be used, by reason.",
            "reason", RejectReason::ALL.map(RejectReason::as_str));
        tombstones = counters_from_zero("ostar_tombstones_total",
            "Records without a payload, which are no events, samples or labels and were passed over.", "input", ["events", "samples", "labels"]);
        offsets_lost = counter("ostar_offsets_lost_total",
            "Records that the broker deleted before they were read (retention, or a recreated topic).");
        rewinds = counters_from_zero("ostar_topic_rewinds_total",
            "Partitions whose offsets began anew: the topic was recreated, or the end of its log was lost.",
            "cause", [LossCause::Recreated, LossCause::Truncated].map(LossCause::as_str));
        consumer_errors = counters("ostar_consumer_errors_total",
            "Errors of the consumer, by librdkafka's code. It recovers from most by itself.", &["code"]);
        waiting = gauges("ostar_waiting_chunks", "Chunks that wait for the learner or the outputs; at 16, reading waits, too.", &["part"]);
        delay = histogram("ostar_event_delay_seconds", "Time from an event's time stamp until it was read.", Buckets::Delays);
    }
    also {
        connected: AtomicBool,
        stopped: AtomicBool,
        lags: Mutex<BTreeMap<i32, PartitionLag>>,
    }
}

impl IngestMetrics {
    pub(crate) fn accepted(&self, events: usize) {
        let accepted = self.events.with_label_values(&["accepted"]);
        accepted.inc_by(events as u64);
    }

    /// `reason` is a `RejectReason`.
    pub(crate) fn rejected(&self, reason: &'static str) {
        self.events.with_label_values(&["rejected"]).inc();
        self.reasons.with_label_values(&[reason]).inc();
    }

    /// `input` is "events", "samples" or "labels".
    pub(crate) fn tombstone(&self, input: &'static str) {
        self.tombstones.with_label_values(&[input]).inc();
    }

    pub(crate) fn set_lag(&self, lag: PartitionLag) {
        self.lags.lock().insert(lag.partition, lag);
    }

    /// Another process reads the partition.
    pub(crate) fn forget_lag(&self, partition: i32) {
        self.lags.lock().remove(&partition);
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
        self.connected.store(connected, Ordering::Relaxed);
    }

    pub(crate) fn set_consumption_stopped(&self, stopped: bool) {
        self.stopped.store(stopped, Ordering::Relaxed);
    }

    /// `part` is "learner" or "outputs".
    pub(crate) fn set_waiting(&self, part: &'static str, chunks: usize) {
        self.waiting.with_label_values(&[part]).set(chunks as i64);
    }

    /// The part of the state that has to do with reading.
    pub(super) fn stream(&self) -> StreamState {
        let reasons = RejectReason::ALL.map(RejectReason::as_str).into_iter();
        let counted = reasons.map(|reason| {
            let count = self.reasons.with_label_values(&[reason]).get();
            (reason.to_owned(), count)
        });
        StreamState {
            connected: self.connected.load(Ordering::Relaxed),
            stopped: self.stopped.load(Ordering::Relaxed),
            partitions: self.lags.lock().values().copied().collect(),
            accepted: self.events.with_label_values(&["accepted"]).get(),
            rejected: counted.filter(|(_, count)| *count > 0).collect(),
            offsets_lost: self.offsets_lost.get(),
            ..StreamState::default()
        }
    }
}
