//! How the learner takes in a block: its groups, the labels that came with it, the gate, alarms and the window.

use ostar_engine::{Error, Inputs, Result, Rows, checks, evaluate::Scratch};

use super::{ArrivedLabel, BlockEvent, BlockReport, LabelBlock, Learner};
use crate::frozen::{FrozenRows, FrozenScores};
use crate::{
    Candidate,
    alarms::{AlarmReport, BlockStatistics},
    gate::Verdict,
    proportions::{Probabilities, ProportionEstimate},
};

impl Learner {
    /// Takes a block of target rows (encoder inputs, or a black box's probabilities) into the window and
    /// the tracked proportions. On an error nothing has changed.
    pub fn observe(&mut self, inputs: Inputs<'_>) -> Result<BlockReport> {
        let mut scores = FrozenScores::default();
        self.model
            .score(inputs, &mut Scratch::default(), &mut scores)?;
        self.observe_scored(scores.rows(0..scores.len()))
    }

    /// [`Learner::observe`] of rows that the frozen model has scored before.
    pub fn observe_scored(&mut self, scores: FrozenRows<'_>) -> Result<BlockReport> {
        self.check_scores(scores)?;
        self.track_groups(scores)?;
        self.close_block(scores)
    }

    fn track_groups(&mut self, scores: FrozenRows<'_>) -> Result<()> {
        let rows = self.group_rows();
        for first in (0..scores.len()).step_by(rows) {
            self.track(scores.slice(first..(first + rows).min(scores.len())))?;
        }
        Ok(())
    }

    /// Rows that [`Learner::track`] takes at a time.
    pub fn group_rows(&self) -> usize {
        self.settings.group.max(self.training_proportions.classes())
    }

    /// Lets the proportions follow a group of rows. A block is complete when all its groups were tracked, in
    /// order, and [`Learner::close_block`] was called with all its rows. On an error nothing has changed.
    pub fn track(&mut self, group: FrozenRows<'_>) -> Result<()> {
        let frozen = self.check_scores(group)?;
        if let Some(mut book) = self.labels.take() {
            let predicted = book.predict(&self.snapshot(), group);
            self.labels = Some(book);
            predicted?;
        }
        let reference = self.gate.reference();
        if let Some(adaptation) = &mut self.adaptation
            && adaptation.good.steps > 0
        {
            let adapted = adaptation.score_served(group.latents())?;
            adaptation.adapted.track(&adapted, None)?;
        }
        self.frozen.track(&frozen, reference)?;
        self.tracked.extend_from_slice(frozen.as_slice());
        Ok(())
    }

    /// [`Learner::track`] of rows whose block is not full. A state that is saved meanwhile is that of the latest full
    /// block: a start reads these rows again.
    pub fn track_ahead(&mut self, group: FrozenRows<'_>) -> Result<()> {
        self.frozen.open_block();
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.adapted.open_block();
        }
        self.track(group)
    }

    /// Takes a block, whose groups were tracked, into window and gate.
    pub fn close_block(&mut self, block: FrozenRows<'_>) -> Result<BlockReport> {
        self.close_labelled_block(block, &[], &[])
    }

    /// [`Learner::close_block`] with the block's events, in the order of its rows, and the labels that take effect with
    /// it. Without [`Learner::use_labels`] both are ignored.
    pub fn close_labelled_block(
        &mut self,
        block: FrozenRows<'_>,
        events: &[BlockEvent<'_>],
        labels: &[ArrivedLabel],
    ) -> Result<BlockReport> {
        let frozen = self.tracked_probabilities(block)?;
        let labels = self.join_labels(block.len(), events, labels)?;
        self.frozen.close_block();
        let known = "a block's groups are tracked before it is closed";
        let frozen_estimate = self.frozen.estimate.clone().expect(known);
        let was_refuted = self.gate.state().verdict().refuted;
        let mapped = self.adaptation.as_mut();
        let mapped = mapped.and_then(|adaptation| adaptation.good.mapped.as_mut());
        let rows_since_jump = self.gate.rows_since_jump();
        let verdict = self.gate.observe(
            // Counted from 1, so that 0 means before the first.
            self.blocks + 1,
            block.latents(),
            &frozen,
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
        let mut report = self.report(block.len(), frozen_estimate, verdict);
        report.labels = labels;
        report.alarms = alarms;
        Ok(report)
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

    /// Lets alarms look at the block that was tracked.
    fn watch(&mut self, estimate: &ProportionEstimate, verdict: &Verdict) -> AlarmReport {
        let readings = self.frozen.take_block_readings();
        self.alarms.observe(BlockStatistics {
            block: self.blocks + 1,
            // After a restart within a block its groups are not known: a gap.
            shares: (!verdict.refuted && !readings.is_empty()).then_some(&readings[..]),
            intervals: Some(&estimate.intervals),
            shape: verdict.prior.as_ref().map(|tests| tests.worst_ratio()),
        })
    }

    /// Joins labels and events, and lets the gate count what they say.
    fn join_labels(
        &mut self,
        rows: usize,
        events: &[BlockEvent<'_>],
        labels: &[ArrivedLabel],
    ) -> Result<Option<LabelBlock>> {
        let (Some(book), Some(tally)) = (&mut self.labels, self.gate.labels_mut()) else {
            return Ok(None);
        };
        if events.is_empty() {
            book.discard();
        } else {
            checks::length("events of a block", events.len(), rows)?;
        }
        let classes = self.training_proportions.classes();
        let known: Vec<u32> = labels.iter().map(|label| label.class).collect();
        checks::labels(&known, classes)?;
        Ok(Some(book.close(self.blocks + 1, events, labels, tally)))
    }

    /// The probabilities of a block: those of its groups, or its own after a restart, which forgets groups.
    fn tracked_probabilities(&mut self, block: FrozenRows<'_>) -> Result<Probabilities> {
        let tracked = std::mem::take(&mut self.tracked);
        if tracked.len() != block.probabilities().len() {
            return self.check_scores(block);
        }
        self.check_widths(block)?;
        let classes = self.training_proportions.classes();
        Ok(Probabilities::from_checked(tracked, classes))
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
        }
    }

    /// The probabilities of rows that are as wide as the model's.
    fn check_scores(&self, scores: FrozenRows<'_>) -> Result<Probabilities> {
        self.check_widths(scores)?;
        let classes = self.training_proportions.classes();
        Probabilities::new("probabilities", Rows::new(scores.probabilities(), classes)?)
    }

    fn check_widths(&self, scores: FrozenRows<'_>) -> Result<()> {
        let (classes, latent) = (self.training_proportions.classes(), self.model.latent());
        if scores.widths() != (classes, latent) {
            return Err(Error::shape(
                "scores of a block",
                format!("{classes} classes and latents of {latent}"),
                format!("{:?}", scores.widths()),
            ));
        }
        Ok(())
    }
}
