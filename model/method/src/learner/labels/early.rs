//! Labels that wait for predictions, oldest first.

use std::collections::{BTreeMap, HashMap};

use super::sampling::hash;

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
