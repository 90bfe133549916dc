//! How often each candidate was right on the demo's mails, of which it knows every class.
//!
//! The daemon learns only the labels that it asks for. Here each mail is scored like a request at the moment it is sent: with
//! the newest snapshot, which has not learned from it.

use std::{array, fmt, sync::Arc};

use anyhow::{Context, Result};
use ostar_bundle::Bundle;
use ostar_connectors::event::{Decoder, EventSettings, InputRows, Row};
use ostar_engine::argmax;
use ostar_method::learner::{Predictor, Scores};
use serde::{Serialize, Serializer};

use super::stream::{ACTS, act_of};
use crate::{current::Current, words::percent};

/// Scores mails and counts who was right.
pub(super) struct Meter {
    decoder: Decoder,
    current: Arc<Current>,
    mails: u64,
    rows: InputRows,
    /// Act and class of each row.
    waiting: Vec<(usize, u32)>,
    scores: Scores,
    /// Of each act.
    pub(super) acts: [Tally; ACTS.len()],
}

/// Mails, and how many of them each predictor had right.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    mails: u64,
    right: [u64; Predictor::ALL.len()],
}

/// The share of mails that each predictor had right, in the order of [`Predictor::ALL`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Accuracies([f64; Predictor::ALL.len()]);

impl Meter {
    pub(super) fn new(
        events: &EventSettings,
        bundle: &Bundle,
        current: Arc<Current>,
        mails: u64,
    ) -> Result<Self> {
        let (input, classes) = (&bundle.description().input, bundle.classes());
        Ok(Self {
            decoder: Decoder::new(events, input, classes)?,
            current,
            mails,
            rows: InputRows::new(input, classes),
            waiting: Vec::new(),
            scores: Scores::default(),
            acts: Default::default(),
        })
    }

    /// Adds a mail, which [`Meter::score`] scores with the others of its burst.
    pub(super) fn add(&mut self, number: u64, row: &Row, class: u32) -> Result<()> {
        let pushed = self.decoder.push_row(row, &mut self.rows);
        pushed.context("a mail of the demo is no event")?;
        self.waiting.push((act_of(number, self.mails), class));
        Ok(())
    }

    pub(super) fn score(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let served = self.current.load();
        let snapshot = &served.snapshot;
        snapshot.score(self.rows.inputs(), &mut self.scores)?;
        let candidates = Predictor::ALL.map(|predictor| match predictor {
            Predictor::Candidate(candidate) => candidate,
            Predictor::Served => self.current.mode().candidate(snapshot.candidate),
        });
        for (number, (act, class)) in self.waiting.drain(..).enumerate() {
            let tally = &mut self.acts[act];
            tally.mails += 1;
            for (right, candidate) in tally.right.iter_mut().zip(candidates) {
                let probabilities = self.scores.of(candidate);
                let classes = probabilities.len() / self.rows.len();
                let row = &probabilities[number * classes..][..classes];
                *right += u64::from(argmax(row) == class as usize);
            }
        }
        self.rows = self.rows.cleared();
        Ok(())
    }

    /// Of all acts.
    pub(super) fn all(&self) -> Tally {
        Tally {
            mails: self.acts.iter().map(|act| act.mails).sum(),
            right: array::from_fn(|place| self.acts.iter().map(|act| act.right[place]).sum()),
        }
    }
}

impl Tally {
    /// `None` without mails.
    pub(super) fn accuracies(&self) -> Option<Accuracies> {
        let accuracy = |right| right as f64 / self.mails as f64;
        (self.mails > 0).then(|| Accuracies(self.right.map(accuracy)))
    }
}

/// `accuracy_frozen` and so on.
impl Serialize for Accuracies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = Predictor::ALL.iter().zip(self.0);
        let all = all.map(|(predictor, share)| (format!("accuracy_{}", predictor.name()), share));
        serializer.collect_map(all)
    }
}

impl fmt::Display for Accuracies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = Predictor::ALL.iter().zip(self.0);
        let all = all.map(|(predictor, share)| format!("{} {}", predictor.name(), percent(share)));
        formatter.write_str(&all.collect::<Vec<_>>().join("   "))
    }
}
