//! Bytes of all requests that are arriving or unanswered, over every listener.
//!
//! Two sums with two limits. Requests that wait for their answer hold back new ones (`requests.queue_bytes`): more of them
//! would only wait longer. Requests that are still arriving hold back nobody: if they take more than
//! `requests.upload_bytes` together, the oldest gives way. An honest request is the youngest for the moment in which it
//! arrives; one that stalls becomes the oldest.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tonic::Status;

use super::{
    connection::Connection,
    ticket::{Ticket, TicketKind},
};
use crate::{
    config::RequestSettings,
    metrics::{Metrics, RefusalReason, RequestCut},
};

/// Shared by all listeners.
pub(crate) struct Uploads {
    most_arriving: usize,
    most_waiting: usize,
    arriving: AtomicUsize,
    waiting: AtomicUsize,
    /// Numbers requests, and what of them is incomplete, in the order in which they began.
    last_number: AtomicU64,
    /// Every request that is not answered, for the watchdog.
    open: Mutex<HashMap<u64, Weak<Ticket>>>,
    /// Those that hold bytes of something incomplete, oldest first. A stream is as old as its message.
    by_age: Mutex<BTreeMap<u64, Weak<Ticket>>>,
    pub(super) metrics: Arc<Metrics>,
}

impl Uploads {
    pub(crate) fn new(settings: &RequestSettings, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            most_arriving: settings.upload_bytes,
            most_waiting: settings.queue_bytes,
            arriving: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            last_number: AtomicU64::new(0),
            open: Mutex::default(),
            by_age: Mutex::default(),
            metrics,
        })
    }

    /// Why a request that is to be scored must not be read; `None` if it may.
    pub(super) fn refuse(&self) -> Option<Status> {
        let limit = self.most_waiting;
        if self.waiting.load(Ordering::Relaxed) < limit {
            return None;
        }
        self.metrics.serving.refused(RefusalReason::QueueBytes);
        Some(Status::resource_exhausted(format!(
            "too many requests: {limit} bytes are unanswered already (requests.queue_bytes)"
        )))
    }

    /// Counts a request from now on, until its ticket is dropped.
    pub(super) fn open(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        kind: TicketKind,
    ) -> Arc<Ticket> {
        let number = self.number();
        let ticket = Arc::new(Ticket::new(number, self, connection, kind));
        self.open.lock().insert(number, Arc::downgrade(&ticket));
        ticket
    }

    pub(super) fn number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Called when the ticket is dropped.
    pub(super) fn close(&self, number: u64) {
        self.open.lock().remove(&number);
    }

    /// Bytes of something incomplete have arrived. Like all changes of the sums, it is called under the ticket's lock:
    /// a sum never misses what a ticket takes off it.
    pub(super) fn add_arriving(&self, bytes: usize) {
        self.arriving.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What has arrived is complete, and waits for its answer.
    pub(super) fn complete(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.arriving.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The ticket holds something incomplete, of this age.
    pub(super) fn begin_upload(&self, age: u64, ticket: &Arc<Ticket>) {
        self.by_age.lock().insert(age, Arc::downgrade(ticket));
    }

    pub(super) fn end_upload(&self, age: u64) {
        self.by_age.lock().remove(&age);
    }

    /// While too much is arriving, the oldest but this one gives way.
    pub(super) fn make_room(&self, age: u64) {
        while self.arriving.load(Ordering::Relaxed) > self.most_arriving {
            let Some(oldest) = self.take_oldest_but(age) else {
                break;
            };
            if let Some(oldest) = oldest.upgrade() {
                oldest.cut(RequestCut::GaveWay);
            }
        }
    }

    pub(super) fn give_back(&self, arriving: usize, waiting: usize) {
        self.arriving.fetch_sub(arriving, Ordering::Relaxed);
        self.waiting.fetch_sub(waiting, Ordering::Relaxed);
    }

    /// Shows the sums in the metrics.
    pub(super) fn show(&self) {
        let serving = &self.metrics.serving;
        serving.set_request_bytes(
            self.arriving.load(Ordering::Relaxed),
            self.waiting.load(Ordering::Relaxed),
        );
    }

    /// All requests that are not answered.
    pub(super) fn tickets(&self) -> Vec<Arc<Ticket>> {
        self.open
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect()
    }

    fn take_oldest_but(&self, age: u64) -> Option<Weak<Ticket>> {
        let mut by_age = self.by_age.lock();
        let oldest = by_age.keys().copied().find(|other| *other != age)?;
        by_age.remove(&oldest)
    }

    #[cfg(test)]
    pub(super) fn sums(&self) -> (usize, usize) {
        let sum = |sum: &AtomicUsize| sum.load(Ordering::Relaxed);
        (sum(&self.arriving), sum(&self.waiting))
    }
}
