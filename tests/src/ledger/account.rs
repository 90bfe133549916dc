//! The settled ledger of a round.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Result, ensure};

use super::{
    Lives,
    collector::{Place, Seen},
    feed::is_good,
};

/// Events between two commits, and the chunk that completes them: the bound that ARCHITECTURE.md gives for a crash.
pub(super) const MOST_REPEATS_PER_KILL: usize = 2_000 + 2_048;

/// What became of every event.
#[derive(Debug)]
pub struct Account {
    seed: u64,
    good: Vec<bool>,
    faults: BTreeMap<&'static str, usize>,
    kills: usize,
    predictions: usize,
    letters: usize,
    parked: usize,
    /// Events without an output.
    missing: Vec<usize>,
    /// Events with an output of the wrong kind.
    wrong: Vec<Seen>,
    /// Events with two outputs from one life.
    twice: Vec<Seen>,
    /// Outputs that a life has repeated of an earlier one, by life.
    repeats: BTreeMap<usize, usize>,
}

impl Account {
    pub(super) fn new(
        seed: u64,
        events: &[Vec<u8>],
        faults: BTreeMap<&'static str, usize>,
    ) -> Self {
        Self {
            seed,
            good: events.iter().map(|event| is_good(event)).collect(),
            faults,
            kills: 0,
            predictions: 0,
            letters: 0,
            parked: 0,
            missing: Vec::new(),
            wrong: Vec::new(),
            twice: Vec::new(),
            repeats: BTreeMap::new(),
        }
    }

    /// Whether every event has an output.
    pub(super) fn covers(&self, all: &[Seen]) -> bool {
        let events: BTreeSet<usize> = all.iter().map(|seen| seen.event).collect();
        events.len() >= self.good.len()
    }

    pub(super) fn settle(&mut self, all: &[Seen], lives: &Lives) {
        self.kills = lives.kills();
        let mut lives_of = vec![Vec::new(); self.good.len()];
        for seen in all {
            match seen.place {
                Place::Predictions => self.predictions += 1,
                Place::Letters => self.letters += 1,
                Place::Parked => self.parked += 1,
            }
            let fits = match (self.good.get(seen.event), seen.place) {
                (None, _) | (Some(true), Place::Letters) | (Some(false), Place::Predictions) => {
                    false
                }
                (Some(_), _) => true,
            };
            if !fits {
                self.wrong.push(*seen);
                continue;
            }
            if lives_of[seen.event].contains(&seen.life) {
                self.twice.push(*seen);
            }
            lives_of[seen.event].push(seen.life);
        }
        for (event, mut lives) in lives_of.into_iter().enumerate() {
            lives.sort_unstable();
            lives.dedup();
            if lives.is_empty() {
                self.missing.push(event);
            }
            for life in lives.into_iter().skip(1) {
                *self.repeats.entry(life).or_default() += 1;
            }
        }
    }

    /// Fails if anything is not as promised.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(self.missing.is_empty(), "events without an output: {self}");
        ensure!(self.wrong.is_empty(), "outputs of a wrong kind: {self}");
        ensure!(self.twice.is_empty(), "outputs twice in one life: {self}");
        let most = self.repeats.values().max().copied().unwrap_or_default();
        ensure!(
            most <= MOST_REPEATS_PER_KILL,
            "more repeats of a kill than {MOST_REPEATS_PER_KILL}: {self}"
        );
        Ok(())
    }
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repeated: usize = self.repeats.values().sum();
        let most = self.repeats.values().max().copied().unwrap_or_default();
        write!(
            formatter,
            "seed {}: {} events; {} predictions, {} dead letters, {} parked; {} missing, {} of a wrong kind, {} twice \
             in one life; {repeated} repeated over {} kills, at most {most} by one; faults {:?}",
            self.seed,
            self.good.len(),
            self.predictions,
            self.letters,
            self.parked,
            self.missing.len(),
            self.wrong.len(),
            self.twice.len(),
            self.kills,
            self.faults,
        )?;
        if !self.missing.is_empty() {
            let some: Vec<_> = self.missing.iter().take(20).collect();
            write!(formatter, "; first missing {some:?}")?;
        }
        for (what, seen) in [("wrong", &self.wrong), ("twice", &self.twice)] {
            if !seen.is_empty() {
                let some: Vec<_> = seen.iter().take(20).collect();
                write!(formatter, "; first {what} {some:?}")?;
            }
        }
        Ok(())
    }
}
