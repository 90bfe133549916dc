//! The paper's tables and streaming scenarios, with every method they compare.
//!
//! A [`task::Task`] is a pair of domains, a [`protocol::Protocol`] the sizes and schedule of its training, a
//! [`method::Method`] what is done about the shift. [`train::run`] gives a [`score::Score`], which
//! [`results`] appends to a file that [`report`] turns into pages.

pub mod cli;
pub mod cluster;
pub mod data;
pub mod gate;
pub mod method;
mod mixture;
pub mod protocol;
pub mod report;
pub mod results;
pub mod score;
pub mod shares;
pub mod stream;
pub mod task;
pub mod train;
pub mod transport;

use ostar_engine::{Inputs, Result};
use ostar_method::learner::{BlockReport, Learner};

/// Learns from rows as one block, of which nothing else is known.
pub fn learn(learner: &mut Learner, inputs: Inputs<'_>) -> Result<BlockReport> {
    let scores = learner.model().scores(inputs)?;
    learner.follow(scores.all(), None)?;
    learner.close(&[], &[])
}
