//! Orders to the running daemon, from `ostard ctl` and the live page.

use clap::Subcommand;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};

use crate::current::ServingMode;

/// A command to the running daemon, as `ostard ctl` and the page name it. The help of `ostard ctl` is made of these comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Order {
    /// Stop alignment. Events are still read and scored, and class shares are still followed.
    Pause,
    /// Resume alignment after `pause`.
    Resume,
    /// Read on after too many bad events have stopped the reading.
    ReadOn,
    /// Write a checkpoint now.
    Checkpoint,
    /// Go back to the last weights that the guard agreed to.
    Rollback,
    /// Change what is served. It survives restarts, until serving.mode is changed.
    Mode {
        /// The new serving mode.
        mode: ServingMode,
    },
}

/// An order, and where its outcome goes: what was done or why not, for a person to read.
pub(crate) struct Request {
    pub(crate) order: Order,
    pub(crate) reply: oneshot::Sender<Result<String, String>>,
}

/// Sends orders to the process. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Controller {
    requests: mpsc::Sender<Request>,
}

/// Orders that may wait. They are rare and given by people; a fifth waits in `give`.
const WAITING_ORDERS: usize = 4;

impl Controller {
    /// A controller, and the receiver for whoever carries the orders out.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(WAITING_ORDERS);
        (Self { requests }, receiver)
    }

    /// Sends an order and waits until it is carried out or refused.
    pub(crate) async fn give(&self, order: Order) -> Result<String, String> {
        let gone = || "the daemon is stopping".to_owned();
        let (reply, outcome) = oneshot::channel();
        let sent = self.requests.send(Request { order, reply }).await;
        sent.map_err(|_| gone())?;
        outcome.await.unwrap_or_else(|_| Err(gone()))
    }
}
