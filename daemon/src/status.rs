//! What the daemon knows of the stream, as its interfaces show it.

use std::sync::Arc;

use ostar_model::learner::{BlockReport, Picture, RefreshReport};
use serde::Serialize;

use crate::current::Version;

/// The newest reports; travels on a watch channel from the learner to gRPC, HTTP and the terminal.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Status {
    /// What is served.
    pub(crate) version: Version,
    /// Events learned from, since the first start.
    pub(crate) events: u64,
    /// Alignment steps taken, since the first start.
    pub(crate) steps: u64,
    /// Steps left out because the learner was behind, since this start.
    pub(crate) skipped_steps: u64,
    /// Whether learning is paused.
    pub(crate) paused: bool,
    /// Whether this process stands by while another one learns.
    pub(crate) standby: bool,
    /// Whether nothing more will come.
    pub(crate) ended: bool,
    /// Of the newest block.
    pub(crate) block: Option<BlockReport>,
    /// Of the newest refresh.
    pub(crate) refresh: Option<RefreshReport>,
    /// Of the newest refresh, for people to look at.
    #[serde(skip)]
    pub(crate) picture: Option<Arc<Picture>>,
}
