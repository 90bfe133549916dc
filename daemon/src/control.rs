//! Orders from outside to the running parts: pause, resume, checkpoint, roll back, change mode.

use tokio::sync::{mpsc, oneshot};

use crate::current::ServingMode;

/// What can be ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Pause,
    Resume,
    Checkpoint,
    Rollback,
    SetMode(ServingMode),
}

/// An order and where its outcome goes: what was done, or why it could not be, for people.
pub(crate) struct Request {
    pub(crate) order: Order,
    pub(crate) reply: oneshot::Sender<Result<String, String>>,
}

/// Gives orders. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Controller {
    requests: mpsc::Sender<Request>,
}

/// Orders are rare and made by people: one waiting is plenty.
const WAITING: usize = 4;

impl Controller {
    /// A controller, and the end that carries its orders out.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Request>) {
        let (requests, receiver) = mpsc::channel(WAITING);
        (Self { requests }, receiver)
    }

    /// Gives an order and waits until it is carried out.
    pub(crate) async fn give(&self, order: Order) -> Result<String, String> {
        let gone = || "the daemon is stopping".to_owned();
        let (reply, outcome) = oneshot::channel();
        let sent = self.requests.send(Request { order, reply }).await;
        sent.map_err(|_| gone())?;
        outcome.await.unwrap_or_else(|_| Err(gone()))
    }
}
