//! The state in words: sentences and tables for the live page, the command line and the demo.
//!
//! The reasons of the gate and the guard, and what an alarm says, come from the model with their figures; the log has the
//! same ones.

mod answers;
mod numbers;
mod tables;
mod why;

#[cfg(test)]
pub(crate) use self::answers::refusal;
pub(crate) use self::{
    answers::{Answers, Remark, candidate, learning, readiness, standing},
    numbers::{count, span},
    tables::{
        Line, Listing, PerSecond, candidates, classes, figures, inputs, rejected, stream, wanted,
    },
    why::{summary, why},
};
