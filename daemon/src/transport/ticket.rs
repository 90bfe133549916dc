//! One request from its header to the end of its answer: its bytes, and whether it makes progress.

use std::{
    sync::Arc,
    task::{Context, Waker},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tonic::Status;

use super::{connection::Connection, uploads::Uploads};
use crate::metrics::RequestCut;

/// A body that brings fewer bytes than this within `connections.body_timeout` makes no progress.
pub(super) const LEAST_PROGRESS: usize = 16 * 1024;

/// What a request's body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TicketKind {
    /// One message.
    Whole,
    /// Messages of gRPC, with silence between them.
    Stream,
}

/// Held by both bodies of a request.
pub(super) struct Ticket {
    number: u64,
    pub(super) kind: TicketKind,
    uploads: Arc<Uploads>,
    connection: Arc<Connection>,
    state: Mutex<State>,
}

struct State {
    /// The client owes bytes.
    owes: bool,
    /// Start of the current measurement of progress.
    since: Instant,
    /// Bytes since then.
    progress: usize,
    /// Bytes of something incomplete.
    arriving: usize,
    /// Orders it among all that is incomplete; `None` if nothing is.
    age: Option<u64>,
    /// Complete and unanswered bytes.
    waiting: usize,
    /// Since when a piece of the answer waits for the client to take it.
    sending_since: Option<Instant>,
    cut: Option<RequestCut>,
    /// The task that reads the body.
    waker: Option<Waker>,
}

impl Ticket {
    pub(super) fn new(
        number: u64,
        uploads: &Arc<Uploads>,
        connection: &Arc<Connection>,
        kind: TicketKind,
    ) -> Self {
        let owes = kind == TicketKind::Whole;
        connection.begin_request();
        if owes {
            connection.owes(true);
        }
        Self {
            number,
            kind,
            uploads: Arc::clone(uploads),
            connection: Arc::clone(connection),
            state: Mutex::new(State {
                owes,
                since: Instant::now(),
                progress: 0,
                arriving: 0,
                age: None,
                waiting: 0,
                sending_since: None,
                cut: None,
                waker: None,
            }),
        }
    }

    /// Whether the request was cut. If not, the task is woken when it is.
    pub(super) fn poll_cut(&self, context: &Context<'_>) -> Option<RequestCut> {
        let mut state = self.state.lock();
        if state.cut.is_none() {
            match &mut state.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
        }
        state.cut
    }

    /// Ends the request with an error at the next read of its body. Its bytes count no more.
    pub(super) fn cut(&self, reason: RequestCut) {
        let mut state = self.state.lock();
        if state.cut.is_some() {
            return;
        }
        state.cut = Some(reason);
        self.settle(&mut state, false);
        self.give_back(&mut state);
        let waker = state.waker.take();
        drop(state);
        self.uploads.metrics.serving.cut_request(reason);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Bytes have arrived, of which `complete` belong to messages that are complete now.
    pub(super) fn arrived(self: &Arc<Self>, bytes: usize, complete: usize) {
        let mut state = self.state.lock();
        if state.cut.is_some() {
            return;
        }
        let begun = state.age;
        let age = begun.unwrap_or_else(|| self.uploads.number());
        if begun.is_none() {
            state.since = Instant::now();
            state.progress = 0;
        }
        state.progress += bytes;
        if state.progress >= LEAST_PROGRESS {
            state.since = Instant::now();
            state.progress = 0;
        }
        state.arriving += bytes;
        self.uploads.add_arriving(bytes);
        if complete > 0 {
            // All but what has begun after them.
            let done = state.arriving - (bytes - complete);
            self.wait(&mut state, done);
        }
        let left = state.arriving > 0;
        state.age = left.then_some(age);
        self.settle(&mut state, self.kind == TicketKind::Whole || left);
        drop(state);
        match (begun, left) {
            (None, true) => self.uploads.begin_upload(age, self),
            (Some(_), false) => self.uploads.end_upload(age),
            _ => {}
        }
        if left {
            self.uploads.make_room(age);
        }
    }

    /// The body has ended.
    pub(super) fn complete(&self) {
        let mut state = self.state.lock();
        self.settle(&mut state, false);
        let done = state.arriving;
        self.wait(&mut state, done);
        let age = state.age.take();
        drop(state);
        if let Some(age) = age {
            self.uploads.end_upload(age);
        }
    }

    fn wait(&self, state: &mut State, done: usize) {
        state.arriving -= done;
        state.waiting += done;
        self.uploads.complete(done);
    }

    /// The earlier messages of a stream are answered: its reader asks for the next.
    pub(super) fn asked_for_more(&self) {
        let mut state = self.state.lock();
        let answered = std::mem::take(&mut state.waiting);
        self.uploads.give_back(0, answered);
    }

    /// The request is answered, or its reader has gone.
    pub(super) fn answered(&self) {
        let mut state = self.state.lock();
        self.settle(&mut state, false);
        self.give_back(&mut state);
    }

    /// A piece of the answer waits for the client to take it, or no longer does.
    pub(super) fn sending(&self, sending: bool) {
        self.state.lock().sending_since = sending.then(Instant::now);
    }

    /// Cuts the request if its body makes no progress; the connection if its answer is not taken.
    pub(super) fn check(&self, now: Instant, limit: Duration) {
        let state = self.state.lock();
        let overdue = |since: Instant| now.saturating_duration_since(since) > limit;
        let (stalled, unread) = (
            state.owes && overdue(state.since),
            state.sending_since.is_some_and(overdue),
        );
        drop(state);
        if unread {
            self.connection.cut(crate::metrics::CutReason::Unread);
        } else if stalled {
            self.cut(RequestCut::BodyTimeout);
        }
    }

    fn settle(&self, state: &mut State, owes: bool) {
        if state.owes != owes {
            state.owes = owes;
            self.connection.owes(owes);
        }
    }

    fn give_back(&self, state: &mut State) {
        let (arriving, waiting) = (state.arriving, state.waiting);
        (state.arriving, state.waiting) = (0, 0);
        self.uploads.give_back(arriving, waiting);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.answered();
        if let Some(age) = self.state.lock().age.take() {
            self.uploads.end_upload(age);
        }
        self.uploads.close(self.number);
        self.connection.end_request();
    }
}

/// What the client of a request that was cut is told.
pub(super) fn status(reason: RequestCut) -> Status {
    match reason {
        RequestCut::BodyTimeout => Status::deadline_exceeded(format!(
            "the request was cut: its body brought fewer than {LEAST_PROGRESS} bytes in the time that it may take \
             (connections.body_timeout)"
        )),
        RequestCut::GaveWay => Status::resource_exhausted(
            "the request was cut: it had been arriving for longer than any other, and newer ones needed its room \
             (requests.upload_bytes)",
        ),
    }
}
