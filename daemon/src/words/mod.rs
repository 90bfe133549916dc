//! The state in words: sentences and tables for the live page, the command line and the demo.
//!
//! The reasons of the gate and the guard, and what an alarm says, come from the model with their figures; the log has the
//! same ones.

mod answers;
mod evidence;
mod lines;
mod listing;
mod names;
mod notes;
mod numbers;
mod remarks;
mod tables;
mod why;

#[cfg(test)]
pub(crate) use self::names::refusal;
pub(crate) use self::{
    answers::Answers,
    lines::{Line, PerSecond, figures, stream},
    listing::Listing,
    notes::{candidates_note, classes_note},
    numbers::{percent, span},
    remarks::{Remark, learning, readiness, standing},
    tables::{candidates, classes, inputs, rejected, wanted},
    why::{in_short, summary, why},
};
