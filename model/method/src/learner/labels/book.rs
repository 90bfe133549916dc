//! The book of labels, part of the learner's state. Everything in it follows from the events, the labels and the block borders
//! at which the labels were taken, so that a replay gives the same bytes.

use ostar_engine::{Result, argmax};

use super::{
    ArrivedLabel, BlockEvent, JoinCounts, LabelBlock, LabelDelays, LabelRequest, LabelUse,
    RequestKind, SentClasses, SharesByLabels,
    early::Early,
    measures::{Joined, LabelMeter},
    memory::{Entry, Memory, Outcome, predicted},
    requests::draw,
    sampling::Sampling,
    shares::ShareBook,
};
use crate::{
    Candidate,
    diagnostics::OrderCheck,
    frozen::FrozenRows,
    gate::{Change, LabelTally, LabelledRow},
    learner::{Scores, Snapshot},
    proportions::prior_correct,
};

/// What waits for a label, and the labels that wait for a prediction.
#[derive(Debug)]
pub(crate) struct LabelBook {
    settings: LabelUse,
    classes: usize,
    pub(super) memory: Memory,
    pub(super) early: Early,
    pub(super) sampling: Sampling,
    /// Newest time of an event.
    pub(super) clock_ms: i64,
    pub(super) counts: JoinCounts,
    pub(super) delays: LabelDelays,
    pub(super) shares: ShareBook,
    pub(super) meter: LabelMeter,
    /// Predictions for the block that is being filled, made before its rows were learned from. Not saved: a start fills
    /// the block again.
    open: Predicted,
    scores: Scores,
}

/// Predictions of all candidates for rows that follow each other.
#[derive(Debug, Default)]
struct Predicted {
    classes: Vec<[u32; 3]>,
    /// The candidate that the gate had chosen.
    served: Vec<Candidate>,
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

    /// The classes that callers were sent, beside those of the candidate that the gate had chosen.
    fn compare(&self, events: &[BlockEvent<'_>]) -> SentClasses {
        let mut sent = SentClasses::default();
        let rows = self.classes.iter().zip(&self.served).zip(events);
        for ((classes, served), event) in rows {
            if let Some(class) = event.sent {
                sent.compared += 1;
                sent.otherwise += u64::from(class != classes[*served as usize]);
            }
        }
        sent
    }
}

impl LabelBook {
    pub(crate) fn new(settings: LabelUse, classes: usize) -> Self {
        Self {
            settings,
            classes,
            memory: Memory::new(classes),
            early: Early::default(),
            sampling: Sampling::default(),
            clock_ms: i64::MIN,
            counts: JoinCounts::default(),
            delays: LabelDelays::default(),
            shares: ShareBook::default(),
            meter: LabelMeter::new(classes, settings.window),
            open: Predicted::default(),
            scores: Scores::default(),
        }
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
            self.open.served.push(snapshot.candidate);
            let probabilities = probabilities.iter().flatten().copied();
            self.open.probabilities.extend(probabilities);
        }
        Ok(())
    }

    /// Forgets the open block.
    pub(crate) fn discard(&mut self) {
        self.open.classes.clear();
        self.open.served.clear();
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
    ) -> Result<LabelBlock> {
        let mut report = LabelBlock {
            sent: self.open.compare(events),
            ..LabelBlock::default()
        };
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
            self.take(block, label, tally);
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
        report.measured = self.meter.close(self.clock_ms);
        report.class_order = self.meter.look_at_order()?;
        Ok(report)
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
        let probabilities = &self.open.probabilities[row * width..][..width];
        let entry = Entry {
            id: id.into(),
            block,
            time_ms,
            asked,
            outcome: Outcome::Waiting,
            served: self.open.served[row],
            change: self.open.changes[row],
        };
        if let Some(kind) = asked {
            match kind {
                RequestKind::Disagreement => self.counts.asked_disagreements += 1,
                RequestKind::Random => self.counts.asked_random += 1,
            }
            let predicted = self.open.classes[row];
            let request = LabelRequest::new(&entry, kind, predicted);
            report.requests.push(request);
        }
        let capacity = self.settings.capacity;
        let dropped = self.memory.push(entry, probabilities, capacity);
        self.counts.unlabelled += dropped as u64;
        if let Some((class, time_ms)) = self.early.take(id) {
            self.join(block, id, class, Some(time_ms), tally);
        }
    }

    /// A label came.
    fn take(&mut self, block: u64, label: &ArrivedLabel, tally: &mut LabelTally) {
        let ArrivedLabel { id, class, time_ms } = label;
        match self.memory.outcome(id) {
            Some(Outcome::Waiting) => self.join(block, id, *class, Some(*time_ms), tally),
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
    ) {
        if let Some(time_ms) = time_ms {
            self.note_delay(id, time_ms);
        }
        let outcome = match time_ms {
            Some(_) => Outcome::Joined,
            None => Outcome::Negative,
        };
        let Some((entry, probabilities)) = self.memory.settle(id, outcome) else {
            return;
        };
        self.counts.joined += 1;
        tally.add(LabelledRow {
            class: class as usize,
            predicted: predicted(&probabilities),
            change: entry.change,
            probabilities: &probabilities,
            block: entry.block,
            age: block.saturating_sub(entry.block),
            asked: entry.asked.is_some(),
            asked_for_disagreement: entry.asked == Some(RequestKind::Disagreement),
        });
        match entry.asked {
            Some(RequestKind::Disagreement) => self.counts.answered_disagreements += 1,
            Some(RequestKind::Random) => {
                self.counts.answered_random += 1;
                let frozen = &probabilities[..self.classes];
                self.shares.answer(entry.block, class, frozen);
            }
            None => {}
        }
        let is_biased = self.settings.requested && entry.asked == Some(RequestKind::Disagreement);
        if !is_biased {
            self.meter.add(Joined {
                class,
                served: entry.served,
                probabilities: probabilities.into(),
            });
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
            self.join(block, &id, negatives.class, None, tally);
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

    /// What the newest labels say about the order of the classes; `None` without labels.
    pub(crate) fn check_order(&self) -> Result<Option<OrderCheck>> {
        self.meter.check_order()
    }

    /// What was asked for and has no label yet, oldest first.
    pub(crate) fn wanted(&self) -> Vec<LabelRequest> {
        self.memory.wanted()
    }
}
