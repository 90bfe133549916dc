//! Predictions that wait for labels, oldest first.

use std::collections::{HashMap, VecDeque};

use ostar_engine::argmax;

use super::{
    requests::{LabelRequest, RequestKind},
    sampling::hash,
};
use crate::{Candidate, gate::Change};

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// No label yet.
    Waiting,
    /// Its label came. It stays, so that a second one is recognised.
    Joined,
    /// No label came in time.
    Negative,
}

/// An event, without what was predicted for it. There may be very many: small on purpose.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) id: Box<str>,
    pub(super) block: u64,
    pub(super) time_ms: i64,
    pub(super) asked: Option<RequestKind>,
    pub(super) outcome: Outcome,
    /// The candidate that the gate had chosen.
    pub(super) served: Candidate,
    /// What the whole correction makes of it.
    pub(super) change: Option<Change>,
}

/// The most probable class by each candidate.
pub(super) fn predicted(probabilities: &[f32]) -> [u32; 3] {
    let classes = probabilities.len() / Candidate::ALL.len();
    Candidate::ALL.map(|candidate| {
        let row = &probabilities[candidate as usize * classes..][..classes];
        argmax(row) as u32
    })
}

/// Events by id, at most so many.
#[derive(Debug)]
pub(super) struct Memory {
    entries: VecDeque<Entry>,
    /// Of each entry, candidate after candidate: in one ring, because a box for each would cost as much again.
    probabilities: VecDeque<f32>,
    /// Numbers of an entry in it.
    width: usize,
    /// Number of the oldest entry; numbers go on for ever.
    first: u64,
    /// By the hash of their ids. Of two ids with one hash only the newer is found: one in 10^14 pairs.
    numbers: HashMap<u64, u64>,
    /// Entries before this number are no longer looked at by [`Memory::next_due`].
    settled: u64,
    /// Entries that were asked for and had no label when last looked at.
    asked: VecDeque<u64>,
    waiting: usize,
}

impl Memory {
    pub(super) fn new(classes: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            probabilities: VecDeque::new(),
            width: Candidate::ALL.len() * classes,
            first: 0,
            numbers: HashMap::new(),
            settled: 0,
            asked: VecDeque::new(),
            waiting: 0,
        }
    }

    /// Events with what was predicted for them, oldest first.
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = (&Entry, Vec<f32>)> {
        let entries = self.entries.iter().enumerate();
        entries.map(|(place, entry)| (entry, self.probabilities(place)))
    }

    fn probabilities(&self, place: usize) -> Vec<f32> {
        let values = place * self.width..(place + 1) * self.width;
        self.probabilities.range(values).copied().collect()
    }

    /// Entries that wait for a label.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    fn find(&self, id: &str) -> Option<&Entry> {
        let number = self.numbers.get(&hash(id))?;
        let entry = self.entries.get((number - self.first) as usize)?;
        (*entry.id == *id).then_some(entry)
    }

    pub(super) fn holds(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    pub(super) fn outcome(&self, id: &str) -> Option<Outcome> {
        self.find(id).map(|entry| entry.outcome)
    }

    pub(super) fn time_ms(&self, id: &str) -> Option<i64> {
        self.find(id).map(|entry| entry.time_ms)
    }

    /// Adds an entry and drops the oldest beyond `capacity`. Gives how many of these still waited.
    pub(super) fn push(&mut self, entry: Entry, probabilities: &[f32], capacity: usize) -> usize {
        let number = self.first + self.entries.len() as u64;
        self.numbers.insert(hash(&entry.id), number);
        if entry.outcome == Outcome::Waiting {
            self.waiting += 1;
            if entry.asked.is_some() {
                self.asked.push_back(number);
            }
        }
        self.entries.push_back(entry);
        self.probabilities.extend(probabilities);
        let mut dropped = 0;
        while self.entries.len() > capacity.max(1) {
            dropped += usize::from(self.drop_oldest());
        }
        dropped
    }

    /// Whether it still waited.
    fn drop_oldest(&mut self) -> bool {
        let Some(entry) = self.entries.pop_front() else {
            return false;
        };
        self.probabilities.drain(..self.width);
        let key = hash(&entry.id);
        if self.numbers.get(&key) == Some(&self.first) {
            self.numbers.remove(&key);
        }
        self.first += 1;
        while self
            .asked
            .front()
            .is_some_and(|number| *number < self.first)
        {
            self.asked.pop_front();
        }
        let waited = entry.outcome == Outcome::Waiting;
        self.waiting -= usize::from(waited);
        waited
    }

    /// An entry that waited has its label, or never will. Gives it with what was predicted, if it waited.
    pub(super) fn settle(&mut self, id: &str, outcome: Outcome) -> Option<(Entry, Vec<f32>)> {
        let number = *self.numbers.get(&hash(id))?;
        let place = (number - self.first) as usize;
        let entry = self.entries.get_mut(place)?;
        if *entry.id != *id || entry.outcome != Outcome::Waiting {
            return None;
        }
        entry.outcome = outcome;
        self.waiting -= 1;
        if entry.asked.is_some()
            && let Ok(place) = self.asked.binary_search(&number)
        {
            self.asked.remove(place);
        }
        let entry = entry.clone();
        Some((entry, self.probabilities(place)))
    }

    /// The oldest entry that waits, if it happened no later than `due_ms`. Entries behind one that is not due wait for it.
    pub(super) fn next_due(&mut self, due_ms: i64) -> Option<Box<str>> {
        self.settled = self.settled.max(self.first);
        while let Some(entry) = self.entries.get((self.settled - self.first) as usize) {
            if entry.outcome == Outcome::Waiting {
                return (entry.time_ms <= due_ms).then(|| entry.id.clone());
            }
            self.settled += 1;
        }
        None
    }

    /// Drops entries that wait and are not kept, unless they were asked for. Gives how many.
    pub(super) fn retain(&mut self, keep: impl Fn(&Entry) -> bool) -> usize {
        let kept = Self::new(self.width / Candidate::ALL.len());
        let mut before = std::mem::replace(self, kept);
        while let Some(entry) = before.entries.pop_front() {
            let probabilities: Vec<f32> = before.probabilities.drain(..before.width).collect();
            if entry.outcome != Outcome::Waiting || entry.asked.is_some() || keep(&entry) {
                self.push(entry, &probabilities, usize::MAX);
            }
        }
        before.waiting - self.waiting
    }

    /// Blocks of the requests up to block `last` that wait, oldest first.
    pub(super) fn unanswered(&self, last: u64) -> impl Iterator<Item = u64> {
        let entries = self.asked.iter().filter_map(|number| {
            let entry = self.entries.get((number - self.first) as usize)?;
            Some(entry.block)
        });
        entries.take_while(move |block| *block <= last)
    }

    /// What was asked for and waits, oldest first.
    pub(super) fn wanted(&self) -> Vec<LabelRequest> {
        let entries = self.asked.iter().filter_map(|number| {
            let place = (number - self.first) as usize;
            let entry = self.entries.get(place)?;
            let predicted = predicted(&self.probabilities(place));
            Some(LabelRequest::new(entry, entry.asked?, predicted))
        });
        entries.collect()
    }
}
