//! Labels meet predictions here: what waits for a label, which labels to ask for, and what the gate is told.
//!
//! A [`LabelBook`] is part of the learner's state. Everything in it follows from the events, the labels and the block
//! borders at which the labels were taken, so that a replay gives the same bytes.

mod delays;
mod memory;
mod requests;
mod sampling;
mod saved;
mod shares;

use serde::{Deserialize, Serialize};

pub(crate) use self::saved::SavedBook;
pub use self::{
    delays::LabelDelays,
    requests::{LabelRequest, RequestKind},
    shares::SharesByLabels,
};
use ostar_engine::{Result, argmax};

use self::{
    memory::{Early, Entry, Memory, Outcome},
    requests::draw,
    sampling::Sampling,
    shares::ShareBook,
};
use super::{Scores, Snapshot};
use crate::frozen::FrozenRows;
use crate::{
    Candidate,
    gate::{Change, LabelTally, LabelledRow, Objective},
    proportions::prior_correct,
};

/// How labels are used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelUse {
    /// Most predictions that wait for their labels, and most labels that wait for their predictions.
    pub capacity: usize,
    /// What predictions are used for.
    pub objective: Objective,
    /// Labels to ask for after every block, on rows where candidates disagree.
    pub disagreements: usize,
    /// Labels to ask for after every block, on rows drawn uniformly.
    pub random: usize,
    /// When an event without a label counts as negative; `None` for never.
    pub negatives: Option<Negatives>,
    /// Seed of what is asked for.
    pub seed: u64,
}

impl Default for LabelUse {
    fn default() -> Self {
        Self {
            capacity: 100_000,
            objective: Objective::Class,
            disagreements: 0,
            random: 0,
            negatives: None,
            seed: 0,
        }
    }
}

/// An event without a label becomes one of this class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negatives {
    /// Milliseconds of event time without a label.
    pub after_ms: i64,
    /// The class that it then has.
    pub class: u32,
}

/// An event of a block: what labels are joined by, and when it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent<'a> {
    /// `None` if it has none: it cannot be joined with a label.
    pub id: Option<&'a str>,
    /// Milliseconds since 1970.
    pub time_ms: i64,
}

/// The true class of an event, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrivedLabel {
    /// The event's id.
    pub id: Box<str>,
    /// Index of its class, below the number of classes.
    pub class: u32,
    /// When the label was written, in milliseconds since 1970.
    pub time_ms: i64,
}

/// Labels and events by their fate, since the first start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinCounts {
    /// Labels that were joined with a prediction, those of `negatives` included.
    pub joined: u64,
    /// Second labels for an id.
    pub duplicates: u64,
    /// Labels that came after their event had become negative. They change nothing.
    pub late: u64,
    /// Labels that were dropped before a prediction came.
    pub unknown: u64,
    /// Predictions that were dropped before a label came.
    pub unlabelled: u64,
    /// Events that became negative because no label came in time.
    pub negatives: u64,
    /// Events without an id, which cannot be asked for.
    pub without_id: u64,
    /// Labels asked for where candidates disagree, and how many came.
    pub asked_disagreements: u64,
    /// Of these, labels that came.
    pub answered_disagreements: u64,
    /// Labels asked for at random, and how many came.
    pub asked_random: u64,
    /// Of these, labels that came.
    pub answered_random: u64,
}

/// What labels did in a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LabelBlock {
    /// Since the first start.
    pub counts: JoinCounts,
    /// Predictions that wait for a label.
    pub waiting: usize,
    /// Of so many events one waits; 1 while all do.
    pub sampled: u64,
    /// How long labels took, since the first start.
    pub delays: LabelDelays,
    /// Labels to ask for.
    pub requests: Vec<LabelRequest>,
    /// Answers to requests that were drawn uniformly.
    pub random_answers: Vec<RandomAnswer>,
    /// Class shares by these answers; `None` while there are too few.
    pub shares: Option<SharesByLabels>,
    /// Ids of events that became negative in this block.
    #[serde(skip)]
    pub negative_ids: Vec<Box<str>>,
}

/// A label of an event that was drawn uniformly.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RandomAnswer {
    /// The block of the event.
    pub block: u64,
    /// Its class.
    pub class: u32,
    /// Probabilities of the frozen model, then of the others, in the order of [`Candidate::ALL`].
    pub probabilities: Vec<f32>,
}

/// What waits for a label, and the labels that wait for a prediction.
#[derive(Debug)]
pub(crate) struct LabelBook {
    settings: LabelUse,
    classes: usize,
    memory: Memory,
    early: Early,
    sampling: Sampling,
    /// Newest time of an event.
    clock_ms: i64,
    counts: JoinCounts,
    delays: LabelDelays,
    shares: ShareBook,
    /// Predictions for the block that is being filled, made before its rows were learned from. Not saved: a start fills
    /// the block again.
    open: Predicted,
    scores: Scores,
}

/// Predictions of all candidates for rows that follow each other.
#[derive(Debug, Default)]
struct Predicted {
    classes: Vec<[u32; 3]>,
    /// What the whole correction makes of each row.
    changes: Vec<Option<Change>>,
    /// For each row, candidate after candidate.
    probabilities: Vec<f32>,
}

impl Predicted {
    /// Whether candidates disagree on each row, or correction at any strength would.
    fn disagreements(&self) -> Vec<bool> {
        let rows = self.classes.iter().zip(&self.changes);
        let disagree = |([frozen, prior, adapted], change): (&[u32; 3], &Option<Change>)| {
            change.is_some() || frozen != prior || frozen != adapted
        };
        rows.map(disagree).collect()
    }
}

impl LabelBook {
    pub(crate) fn new(settings: LabelUse, classes: usize) -> Self {
        Self {
            settings,
            classes,
            memory: Memory::default(),
            early: Early::default(),
            sampling: Sampling::default(),
            clock_ms: i64::MIN,
            counts: JoinCounts::default(),
            delays: LabelDelays::default(),
            shares: ShareBook::default(),
            open: Predicted::default(),
            scores: Scores::default(),
        }
    }

    pub(crate) fn set(&mut self, settings: LabelUse) {
        if settings.random == 0 {
            // Shares that no further label follows would be those of long ago.
            self.shares.clear();
        }
        self.settings = settings;
    }

    /// Remembers what the candidates predict for rows of the open block, before anything is learned from them.
    pub(crate) fn predict(&mut self, snapshot: &Snapshot, rows: FrozenRows<'_>) -> Result<()> {
        snapshot.score_rows(rows, &mut self.scores)?;
        let is_whole = snapshot.frozen_proportions == snapshot.whole_proportions;
        let mut whole = Vec::new();
        if !is_whole {
            whole.clone_from(&self.scores.frozen);
            let training = &snapshot.training_proportions;
            prior_correct(&mut whole, training, &snapshot.whole_proportions);
        }
        let whole = if is_whole { &self.scores.prior } else { &whole };
        let by_candidate = Candidate::ALL.map(|candidate| self.scores.of(candidate));
        for row in 0..rows.len() {
            let of = |values: &&[f32]| values[row * self.classes..][..self.classes].to_vec();
            let probabilities = by_candidate.each_ref().map(of);
            let predicted = probabilities.each_ref().map(|row| argmax(row) as u32);
            let whole = &whole[row * self.classes..][..self.classes];
            let classes = [predicted[Candidate::Frozen as usize], argmax(whole) as u32];
            let frozen = &probabilities[Candidate::Frozen as usize];
            self.open.changes.push(Change::new(frozen, whole, classes));
            self.open.classes.push(predicted);
            let probabilities = probabilities.iter().flatten().copied();
            self.open.probabilities.extend(probabilities);
        }
        Ok(())
    }

    /// Forgets the open block.
    pub(crate) fn discard(&mut self) {
        self.open.classes.clear();
        self.open.changes.clear();
        self.open.probabilities.clear();
    }

    /// Closes a block: its events wait for labels from now on, and the labels that came are joined and counted.
    pub(crate) fn close(
        &mut self,
        block: u64,
        events: &[BlockEvent<'_>],
        labels: &[ArrivedLabel],
        tally: &mut LabelTally,
    ) -> LabelBlock {
        let mut report = LabelBlock::default();
        tally.age();
        tally.note_changes(block, &self.open.changes);
        let clock = events.iter().map(|event| event.time_ms).max();
        self.clock_ms = clock.map_or(self.clock_ms, |clock| clock.max(self.clock_ms));
        let with_id = events.iter().filter(|event| event.id.is_some()).count();
        self.counts.without_id += (events.len() - with_id) as u64;
        if let Some(negatives) = self.settings.negatives {
            let capacity = self.settings.capacity;
            let changed =
                self.sampling
                    .follow(self.clock_ms, with_id, negatives.after_ms, capacity);
            if changed {
                let sampling = self.sampling;
                let dropped = self.memory.retain(|entry| sampling.admits(&entry.id));
                self.counts.unlabelled += dropped as u64;
            }
        }
        self.open_shares(block, events);
        let disagree = self.open.disagreements();
        let asked = draw(block, events, &disagree, &self.settings);
        for (row, event) in events.iter().enumerate() {
            let Some(id) = event.id else { continue };
            let kind = asked.get(&row).copied();
            if kind.is_some() || self.sampling.admits(id) {
                self.wait(block, row, id, event.time_ms, kind, tally, &mut report);
            }
        }
        self.discard();
        for label in labels {
            self.take(block, label, tally, &mut report);
        }
        self.make_negatives(block, tally, &mut report);
        // A request of this block has had no time to be answered.
        let last = tally.answered_block().min(block.saturating_sub(1));
        tally.note_passed_over(block, self.memory.unanswered(last));
        report.counts = self.counts;
        report.waiting = self.memory.waiting();
        report.sampled = self.sampling.one_of();
        report.delays = self.delays.clone();
        self.shares.forget_old();
        report.shares = self.shares.shares();
        report
    }

    /// The block's labels will tell shares: what the frozen model predicts for the events that may be drawn.
    fn open_shares(&mut self, block: u64, events: &[BlockEvent<'_>]) {
        if self.settings.random == 0 {
            return;
        }
        let width = Candidate::ALL.len() * self.classes;
        let rows = self.open.probabilities.chunks_exact(width).zip(events);
        let rows = rows.filter(|(_, event)| event.id.is_some());
        let frozen = rows.map(|(row, _)| &row[..self.classes]);
        self.shares.open(block, self.classes, frozen);
    }

    /// A prediction waits for its label, unless that came before.
    #[expect(clippy::too_many_arguments, reason = "one event and where it goes")]
    fn wait(
        &mut self,
        block: u64,
        row: usize,
        id: &str,
        time_ms: i64,
        asked: Option<RequestKind>,
        tally: &mut LabelTally,
        report: &mut LabelBlock,
    ) {
        if self.memory.holds(id) {
            // An event that was delivered again.
            return;
        }
        let width = Candidate::ALL.len() * self.classes;
        let keeps =
            self.settings.objective == Objective::Probability || asked == Some(RequestKind::Random);
        let probabilities = if keeps {
            self.open.probabilities[row * width..][..width].into()
        } else {
            Box::default()
        };
        let entry = Entry {
            id: id.into(),
            block,
            time_ms,
            asked,
            outcome: Outcome::Waiting,
            predicted: self.open.classes[row],
            change: self.open.changes[row],
            probabilities,
        };
        if let Some(kind) = asked {
            match kind {
                RequestKind::Disagreement => self.counts.asked_disagreements += 1,
                RequestKind::Random => self.counts.asked_random += 1,
            }
            report.requests.push(LabelRequest::of(&entry, kind));
        }
        let dropped = self.memory.push(entry, self.settings.capacity);
        self.counts.unlabelled += dropped as u64;
        if let Some((class, time_ms)) = self.early.take(id) {
            self.join(block, id, class, Some(time_ms), tally, report);
        }
    }

    /// A label came.
    fn take(
        &mut self,
        block: u64,
        label: &ArrivedLabel,
        tally: &mut LabelTally,
        report: &mut LabelBlock,
    ) {
        let ArrivedLabel { id, class, time_ms } = label;
        match self.memory.outcome(id) {
            Some(Outcome::Waiting) => self.join(block, id, *class, Some(*time_ms), tally, report),
            Some(Outcome::Joined) => self.counts.duplicates += 1,
            Some(Outcome::Negative) => {
                let is_late = self.settings.negatives.is_some_and(|n| n.class != *class);
                if is_late {
                    self.counts.late += 1;
                    self.note_delay(id, *time_ms);
                } else {
                    self.counts.duplicates += 1;
                }
            }
            None if self.early.holds(id) => self.counts.duplicates += 1,
            None => {
                let capacity = self.settings.capacity;
                let dropped = self.early.push(id, *class, *time_ms, capacity);
                self.counts.unknown += dropped as u64;
            }
        }
    }

    /// Counts the label of an event that waits.
    fn join(
        &mut self,
        block: u64,
        id: &str,
        class: u32,
        time_ms: Option<i64>,
        tally: &mut LabelTally,
        report: &mut LabelBlock,
    ) {
        if let Some(time_ms) = time_ms {
            self.note_delay(id, time_ms);
        }
        let outcome = match time_ms {
            Some(_) => Outcome::Joined,
            None => Outcome::Negative,
        };
        let Some(entry) = self.memory.settle(id, outcome) else {
            return;
        };
        self.counts.joined += 1;
        tally.add(LabelledRow {
            class: class as usize,
            predicted: entry.predicted,
            change: entry.change,
            probabilities: &entry.probabilities,
            block: entry.block,
            age: block.saturating_sub(entry.block),
            asked: entry.asked.is_some(),
            asked_for_disagreement: entry.asked == Some(RequestKind::Disagreement),
        });
        match entry.asked {
            Some(RequestKind::Disagreement) => self.counts.answered_disagreements += 1,
            Some(RequestKind::Random) => {
                self.counts.answered_random += 1;
                let frozen = &entry.probabilities[..self.classes];
                self.shares.answer(entry.block, class, frozen);
                report.random_answers.push(RandomAnswer {
                    block: entry.block,
                    class,
                    probabilities: entry.probabilities.to_vec(),
                });
            }
            None => {}
        }
    }

    fn note_delay(&mut self, id: &str, time_ms: i64) {
        if let Some(event_ms) = self.memory.time_ms(id) {
            self.delays.add(time_ms.saturating_sub(event_ms));
        }
    }

    /// Events that have waited long enough become negative, once.
    fn make_negatives(&mut self, block: u64, tally: &mut LabelTally, report: &mut LabelBlock) {
        let Some(negatives) = self.settings.negatives else {
            return;
        };
        let due = self.clock_ms.saturating_sub(negatives.after_ms);
        while let Some(id) = self.memory.next_due(due) {
            self.join(block, &id, negatives.class, None, tally, report);
            self.counts.negatives += 1;
            report.negative_ids.push(id);
        }
    }

    pub(crate) fn counts(&self) -> JoinCounts {
        self.counts
    }

    pub(crate) fn shares(&self) -> Option<SharesByLabels> {
        self.shares.shares()
    }

    /// What was asked for and has no label yet, oldest first.
    pub(crate) fn wanted(&self) -> Vec<LabelRequest> {
        self.memory.wanted()
    }
}
