//! Predictions that wait for labels, and labels that wait for predictions, oldest first.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{
    requests::{LabelRequest, RequestKind},
    sampling::hash,
};
use crate::gate::Change;

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

/// An event and what was predicted for it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) id: Box<str>,
    pub(super) block: u64,
    pub(super) time_ms: i64,
    pub(super) asked: Option<RequestKind>,
    pub(super) outcome: Outcome,
    pub(super) predicted: [u32; 3],
    /// What the whole correction makes of it.
    pub(super) change: Option<Change>,
    /// Candidate after candidate; empty if nothing will need them.
    pub(super) probabilities: Box<[f32]>,
}

/// Events by id, at most so many.
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: VecDeque<Entry>,
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
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
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
    pub(super) fn push(&mut self, entry: Entry, capacity: usize) -> usize {
        let number = self.first + self.entries.len() as u64;
        self.numbers.insert(hash(&entry.id), number);
        if entry.outcome == Outcome::Waiting {
            self.waiting += 1;
            if entry.asked.is_some() {
                self.asked.push_back(number);
            }
        }
        self.entries.push_back(entry);
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

    /// An entry that waited has its label, or never will. Gives it, if it waited.
    pub(super) fn settle(&mut self, id: &str, outcome: Outcome) -> Option<Entry> {
        let number = *self.numbers.get(&hash(id))?;
        let entry = self.entries.get_mut((number - self.first) as usize)?;
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
        let probabilities = std::mem::take(&mut entry.probabilities);
        Some(Entry {
            probabilities,
            ..entry.clone()
        })
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
        let before = self.waiting;
        let entries = std::mem::take(&mut self.entries);
        let kept = entries.into_iter().filter(|entry| {
            entry.outcome != Outcome::Waiting || entry.asked.is_some() || keep(entry)
        });
        let capacity = usize::MAX;
        let mut memory = Self::default();
        for entry in kept {
            memory.push(entry, capacity);
        }
        *self = memory;
        before - self.waiting
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
            let entry = self.entries.get((number - self.first) as usize)?;
            Some(LabelRequest::of(entry, entry.asked?))
        });
        entries.collect()
    }
}

/// Labels that came before their predictions, or that belong to none.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// By the order in which they came.
    labels: BTreeMap<u64, EarlyLabel>,
    /// Their places in this order, by the hash of their ids, as in [`Memory`]. An id is stored once.
    numbers: HashMap<u64, u64>,
    next: u64,
}

#[derive(Debug)]
struct EarlyLabel {
    id: Box<str>,
    class: u32,
    time_ms: i64,
}

impl Early {
    fn number(&self, id: &str) -> Option<u64> {
        let number = *self.numbers.get(&hash(id))?;
        let label = self.labels.get(&number)?;
        (*label.id == *id).then_some(number)
    }

    pub(super) fn holds(&self, id: &str) -> bool {
        self.number(id).is_some()
    }

    /// Class and time of the label of this id, which waits no longer.
    pub(super) fn take(&mut self, id: &str) -> Option<(u32, i64)> {
        let number = self.number(id)?;
        self.numbers.remove(&hash(id));
        let label = self.labels.remove(&number)?;
        Some((label.class, label.time_ms))
    }

    /// Gives how many were dropped for it.
    pub(super) fn push(&mut self, id: &str, class: u32, time_ms: i64, capacity: usize) -> usize {
        self.numbers.insert(hash(id), self.next);
        let label = EarlyLabel {
            id: id.into(),
            class,
            time_ms,
        };
        self.labels.insert(self.next, label);
        self.next += 1;
        let mut dropped = 0;
        while self.labels.len() > capacity.max(1)
            && let Some((number, oldest)) = self.labels.pop_first()
        {
            let key = hash(&oldest.id);
            if self.numbers.get(&key) == Some(&number) {
                self.numbers.remove(&key);
            }
            dropped += 1;
        }
        dropped
    }

    /// Oldest first: id, class, time.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, u32, i64)> {
        let labels = self.labels.values();
        labels.map(|label| (&*label.id, label.class, label.time_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_labels_are_taken_once_and_the_oldest_make_room() {
        let mut early = Early::default();
        assert_eq!(early.push("a", 1, 10, 2), 0);
        assert_eq!(early.push("b", 0, 20, 2), 0);
        assert_eq!(early.take("a"), Some((1, 10)));
        assert_eq!(early.take("a"), None);
        // What was taken needs no room.
        assert_eq!(early.push("c", 1, 30, 2), 0);
        assert_eq!(early.push("d", 1, 40, 2), 1);
        assert!(!early.holds("b") && early.holds("c") && early.holds("d"));
        let left: Vec<_> = early.iter().collect();
        assert_eq!(left, [("c", 1, 30), ("d", 1, 40)]);
        assert_eq!(early.numbers.len(), 2);
    }
}
