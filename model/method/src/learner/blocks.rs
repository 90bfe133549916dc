//! The two ways into the learner: rows as they come, and the end of a block with the labels that came.

use std::ops::Range;

use ostar_engine::{Error, Result, Rows, checks};

use super::{ArrivedLabel, BlockEvent, BlockReport, InputSample, LabelBlock, Learner};
use crate::frozen::FrozenRows;
use crate::{
    Candidate,
    alarms::{AlarmReport, BlockStatistics},
    gate::Verdict,
    proportions::{Probabilities, ProportionEstimate},
};

impl Learner {
    /// Takes in rows as they come, which the frozen model has scored. The shares move with every full group of rows; the
    /// others wait for the next call, or for [`Learner::close`]. Gives whether the shares have moved. A state that is saved
    /// meanwhile is that of the latest full block: a start reads these rows again. If rows are refused, nothing has changed.
    pub fn follow(
        &mut self,
        rows: FrozenRows<'_>,
        sample: Option<InputSample<'_>>,
    ) -> Result<bool> {
        if let Some(InputSample { inputs, rows }) = sample {
            self.alarms.count_inputs(inputs, rows);
        }
        if rows.is_empty() {
            return Ok(false);
        }
        let checked = self.check_scores(rows)?;
        self.open.append(rows, &checked);
        let mut has_moved = false;
        while let Some(group) = self.open.next_group(self.group_rows()) {
            self.follow_group(group)?;
            has_moved = true;
        }
        Ok(has_moved)
    }

    /// Rows with which the shares move.
    pub fn group_rows(&self) -> usize {
        self.settings.group.max(self.training_proportions.classes())
    }

    fn follow_group(&mut self, rows: Range<usize>) -> Result<()> {
        let snapshot = self.labels.is_some().then(|| self.snapshot());
        let group = self.open.rows(rows.clone());
        if let (Some(book), Some(snapshot)) = (&mut self.labels, &snapshot) {
            book.predict(snapshot, group)?;
        }
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.adapted.open_block();
            if adaptation.good.steps > 0 {
                let adapted = adaptation.score_served(group.latents())?;
                adaptation.adapted.track(&adapted, None)?;
            }
        }
        self.frozen.open_block();
        let frozen = self.open.probabilities(rows);
        self.frozen.track(&frozen, self.gate.reference())
    }

    /// Closes the block whose rows have come: `events` are these rows, in their order, or none if nothing is known of them,
    /// and `labels` those that take effect with it. Window, gate, alarms and labels take it in.
    pub fn close(
        &mut self,
        events: &[BlockEvent<'_>],
        labels: &[ArrivedLabel],
    ) -> Result<BlockReport> {
        self.check_arrivals(events, labels)?;
        let rest = self.open.len() - self.open.followed();
        if let Some(rest) = self.open.next_group(rest) {
            self.follow_group(rest)?;
        }
        let mut open = std::mem::take(&mut self.open);
        let rows = 0..open.len();
        let frozen = open.probabilities(rows.clone());
        let report = self.close_block(open.rows(rows), &frozen, events, labels);
        open.clear();
        self.open = open;
        report
    }

    fn close_block(
        &mut self,
        block: FrozenRows<'_>,
        frozen: &Probabilities,
        events: &[BlockEvent<'_>],
        labels: &[ArrivedLabel],
    ) -> Result<BlockReport> {
        if let Some(newest_ms) = events.iter().map(|event| event.time_ms).max() {
            self.alarms.note_time(newest_ms);
        }
        let labels = self.join_labels(events, labels)?;
        self.frozen.close_block();
        let known = "a block's groups are followed before it is closed";
        let frozen_estimate = self.frozen.estimate.clone().expect(known);
        let was_refuted = self.gate.state().verdict().refuted;
        let mapped = self.adaptation.as_mut();
        let mapped = mapped.and_then(|adaptation| adaptation.good.mapped.as_mut());
        let rows_since_jump = self.gate.rows_since_jump();
        let verdict = self.gate.observe(
            // Counted from 1, so that 0 means before the first.
            self.blocks + 1,
            block.latents(),
            frozen,
            frozen_estimate.effective_rows,
            mapped,
        );
        let verdict = verdict.clone();
        let jumped = self.gate.rows_since_jump() <= rows_since_jump;
        let alarms = self.watch(&frozen_estimate, &verdict);
        self.follow_verdict(block, verdict.refuted && (jumped || !was_refuted))?;
        if !verdict.refuted {
            self.effort.end();
        }
        self.blocks += 1;
        let steps_due = if self.is_ready() {
            self.effort.spend(self.plan, verdict.refuted)
        } else {
            0
        };
        Ok(BlockReport {
            labels,
            alarms,
            steps_due,
            ..self.report(block.len(), frozen_estimate, verdict)
        })
    }

    /// Takes a block into the window of alignment. Where label shift was just refuted, only the rows since the change are
    /// kept, and many steps are due.
    fn follow_verdict(&mut self, block: FrozenRows<'_>, newly_refuted: bool) -> Result<()> {
        let Some(adaptation) = &mut self.adaptation else {
            return Ok(());
        };
        adaptation.keep(block.latents(), &mut self.generator)?;
        if newly_refuted {
            let rows = self.gate.rows_since_jump().min(usize::MAX as u64) as usize;
            adaptation.shorten_window(rows.max(self.settings.batch))?;
            self.effort.begin();
            if let Some(tally) = self.gate.labels_mut() {
                tally.renew_adapted(self.blocks + 1);
            }
        }
        if adaptation.good.steps > 0 {
            adaptation.adapted.close_block();
        } else {
            // f_N is still f_S.
            adaptation.adapted.follow(&self.frozen);
        }
        Ok(())
    }

    /// Lets alarms look at the block that was followed.
    fn watch(&mut self, estimate: &ProportionEstimate, verdict: &Verdict) -> AlarmReport {
        let readings = self.frozen.take_block_readings();
        self.alarms.observe(BlockStatistics {
            block: self.blocks + 1,
            shares: (!verdict.refuted).then_some(&readings[..]),
            intervals: Some(&estimate.intervals),
            shape: verdict.prior.as_ref().map(|tests| tests.worst_ratio()),
        })
    }

    /// Joins labels and events, and lets the gate count what they say.
    fn join_labels(
        &mut self,
        events: &[BlockEvent<'_>],
        labels: &[ArrivedLabel],
    ) -> Result<Option<LabelBlock>> {
        let (Some(book), Some(tally)) = (&mut self.labels, self.gate.labels_mut()) else {
            return Ok(None);
        };
        if events.is_empty() {
            book.discard();
        }
        book.close(self.blocks + 1, events, labels, tally).map(Some)
    }

    fn report(&self, rows: usize, frozen: ProportionEstimate, verdict: Verdict) -> BlockReport {
        let flagged = |estimate: ProportionEstimate, known: bool| {
            if known {
                estimate
            } else {
                estimate.into_unknown()
            }
        };
        let learned = self.adaptation.as_ref();
        let adapted = learned.and_then(|adaptation| adaptation.adapted.estimate.clone());
        // Before the first step the adapted model is the frozen one, and known as far as it is. Afterwards its intervals know
        // nothing of the map's errors: where its tests passed clearly, half of them covered.
        let has_learned = learned.is_some_and(|adaptation| adaptation.good.steps > 0);
        let explained = !has_learned && verdict.proportions_known;
        let frozen = flagged(frozen, verdict.proportions_known);
        let adapted = adapted.map(|estimate| flagged(estimate, explained));
        let served = match (&adapted, verdict.candidate) {
            (Some(adapted), Candidate::Adapted) => adapted.clone(),
            _ => frozen.clone(),
        };
        BlockReport {
            rows,
            frozen,
            adapted,
            served,
            verdict,
            labels: None,
            alarms: AlarmReport::default(),
            steps_due: 0,
        }
    }

    /// The probabilities of rows that are as wide as the model's.
    fn check_scores(&self, scores: FrozenRows<'_>) -> Result<Probabilities> {
        let (classes, latent) = (self.training_proportions.classes(), self.model.latent());
        if scores.widths() != (classes, latent) {
            return Err(Error::shape(
                "scores of a block",
                format!("{classes} classes and latents of {latent}"),
                format!("{:?}", scores.widths()),
            ));
        }
        Probabilities::new("probabilities", Rows::new(scores.probabilities(), classes)?)
    }

    /// Whether a block can be closed with these.
    fn check_arrivals(&self, events: &[BlockEvent<'_>], labels: &[ArrivedLabel]) -> Result<()> {
        let rows = self.open.len();
        if rows == 0 {
            return Err(Error::setting(
                "block",
                "has no rows, expected at least one",
            ));
        }
        if !events.is_empty() {
            checks::length("events of a block", events.len(), rows)?;
        }
        let known: Vec<u32> = labels.iter().map(|label| label.class).collect();
        checks::labels(&known, self.training_proportions.classes())
    }
}
