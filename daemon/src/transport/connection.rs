//! One connection: what its client owes, and the end of it.

use std::{
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Chain;
use hyper_util::server::graceful::GracefulConnection;
use ostar_connectors::settings::Period;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{self, sleep_until},
};

use super::{admission::Protocol, frames::Frames};
use crate::{config::ConnectionSettings, metrics::CutReason};

/// Time that a client without requests gets to notice that its connection ends.
const GOODBYE: Duration = Duration::from_secs(1);

/// State of a connection, which its tasks and the watchdog share.
pub(crate) struct Connection {
    /// Requests that are not answered to the last byte.
    in_flight: AtomicUsize,
    /// Those among them whose client owes bytes.
    owing: AtomicUsize,
    times: Mutex<Times>,
    cut: OnceLock<CutReason>,
    was_cut: Notify,
}

struct Times {
    /// `None` for HTTP/1, whose requests follow one after the other.
    frames: Option<Frames>,
    opened: Instant,
    /// Since when the client owes the rest of a handshake, a header or a frame.
    owes_since: Option<Instant>,
    /// Since when the client takes no byte of what is written.
    blocked_since: Option<Instant>,
    /// End of the last request.
    idle_since: Instant,
}

/// Which connection gives way first when there are too many: the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Has not even sent a header.
    Owes(Instant),
    /// Has no request.
    Idle(Instant),
    /// Has only requests that have not arrived.
    Uploads(Instant),
}

impl Connection {
    pub(super) fn new(protocol: Protocol) -> Arc<Self> {
        let now = Instant::now();
        Arc::new(Self {
            in_flight: AtomicUsize::new(0),
            owing: AtomicUsize::new(0),
            times: Mutex::new(Times {
                frames: (protocol == Protocol::Grpc).then(|| Frames::new(now)),
                opened: now,
                owes_since: Some(now),
                blocked_since: None,
                idle_since: now,
            }),
            cut: OnceLock::new(),
            was_cut: Notify::new(),
        })
    }

    pub(super) fn begin_request(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut times = self.times.lock();
        if times.frames.is_none() {
            times.owes_since = None;
        }
    }

    pub(super) fn end_request(&self) {
        self.times.lock().idle_since = Instant::now();
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn owes(&self, owes: bool) {
        if owes {
            self.owing.fetch_add(1, Ordering::Relaxed);
        } else {
            self.owing.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes note of bytes. `Err` if the client floods the connection.
    pub(super) fn received(&self, bytes: &[u8]) -> Result<(), CutReason> {
        if bytes.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let mut times = self.times.lock();
        let (owes, flood) = match &mut times.frames {
            Some(frames) => {
                let outcome = frames.take(bytes, now);
                (frames.is_incomplete(), outcome.err())
            }
            // Until a request begins, what arrives is its header.
            None => (self.in_flight.load(Ordering::Relaxed) == 0, None),
        };
        times.owes_since = owes.then(|| times.owes_since.unwrap_or(now));
        drop(times);
        match flood {
            None => Ok(()),
            Some(reason) => {
                self.cut(reason);
                Err(reason)
            }
        }
    }

    /// Takes note of whether the client takes what is written.
    pub(super) fn blocked(&self, blocked: bool) {
        let mut times = self.times.lock();
        if blocked != times.blocked_since.is_some() {
            times.blocked_since = blocked.then(Instant::now);
        }
    }

    /// Ends the connection. The first reason is kept.
    pub(super) fn cut(&self, reason: CutReason) {
        if self.cut.set(reason).is_ok() {
            self.was_cut.notify_one();
        }
    }

    pub(super) fn reason(&self) -> Option<CutReason> {
        self.cut.get().copied()
    }

    /// Why it is to be cut now, if it is.
    pub(super) fn overdue(&self, now: Instant, limits: &ConnectionSettings) -> Option<CutReason> {
        let times = self.times.lock();
        let older = |since: Option<Instant>, limit: Period| {
            since.is_some_and(|since| now.saturating_duration_since(since) > limit.get())
        };
        let idle = self.in_flight.load(Ordering::Relaxed) == 0;
        if older(times.owes_since, limits.header_timeout) {
            Some(CutReason::Header)
        } else if older(times.blocked_since, limits.body_timeout) {
            Some(CutReason::Unread)
        } else if older(idle.then_some(times.idle_since), limits.idle_timeout) {
            Some(CutReason::Idle)
        } else {
            None
        }
    }

    /// `None` if it has a request that has arrived.
    pub(super) fn rank(&self) -> Option<Rank> {
        let times = self.times.lock();
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        match (in_flight, times.owes_since) {
            (0, Some(since)) => Some(Rank::Owes(since)),
            (0, None) => Some(Rank::Idle(times.idle_since)),
            _ if self.owing.load(Ordering::Relaxed) >= in_flight => {
                Some(Rank::Uploads(times.opened))
            }
            _ => None,
        }
    }

    /// Runs the connection until its client ends it, it is cut, or the daemon stops and every request is answered.
    pub(super) async fn drive(
        &self,
        server: impl GracefulConnection<Error = hyper::Error>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut server = pin!(server);
        let mut last = None;
        let mut told = false;
        loop {
            let end = last.unwrap_or_else(time::Instant::now);
            tokio::select! {
                // Its errors are the client's: it went away, does not speak the protocol, or floods it.
                outcome = server.as_mut() => {
                    if outcome.is_err_and(|error| is_flood(&error)) {
                        self.cut(CutReason::Resets);
                    }
                    return;
                }
                () = self.was_cut.notified(), if last.is_none() => match self.reason() {
                    Some(CutReason::Idle | CutReason::Limit) => {
                        server.as_mut().graceful_shutdown();
                        last = Some(time::Instant::now() + GOODBYE);
                    }
                    _ => return,
                },
                () = sleep_until(end), if last.is_some() => return,
                _ = stopped.wait_for(|stopped| *stopped), if !told => {
                    server.as_mut().graceful_shutdown();
                    told = true;
                }
            }
        }
    }

    /// Resolves when it is cut.
    pub(super) async fn wait_for_cut(&self) {
        self.was_cut.notified().await;
    }
}

/// Whether the HTTP/2 library ended the connection because of too many cancelled or refused requests.
fn is_flood(error: &hyper::Error) -> bool {
    let error = Chain::new(error).find_map(|cause| cause.downcast_ref::<h2::Error>());
    error.is_some_and(|error| error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM))
}
