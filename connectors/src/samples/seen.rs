//! Which events the learner has seen. Samples arrive at least once, and must be learned once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How far the samples of one partition of events were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Tells this creation of the topic from others; see [`super::fingerprint`].
    pub creation: u64,
    /// The offset behind the last event that was seen.
    pub next: i64,
}

/// By partition of the events, how far samples were seen. Part of every checkpoint of a learner of samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeenEvents(BTreeMap<i32, Seen>);

impl SeenEvents {
    /// Notes an event; `false` if it, or one behind it, was seen before.
    pub fn advance(&mut self, partition: i32, offset: i64, creation: u64) -> bool {
        let next = offset + 1;
        let known = self
            .0
            .entry(partition)
            .or_insert(Seen { creation, next: 0 });
        if known.creation == creation && offset < known.next {
            return false;
        }
        *known = Seen { creation, next };
        true
    }

    /// Takes over what was noted for these partitions.
    pub fn extend(&mut self, newer: &Self) {
        self.0.extend(&newer.0);
    }

    /// Events between the two, over all partitions of the same creation that both know.
    pub fn events_since(&self, earlier: &Self) -> u64 {
        let moved = |(partition, seen): (&i32, &Seen)| {
            let before = earlier.0.get(partition)?;
            (before.creation == seen.creation).then(|| (seen.next - before.next).max(0) as u64)
        };
        self.0.iter().filter_map(moved).sum()
    }

    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_new_once_unless_its_topic_was_made_anew() {
        let mut seen = SeenEvents::default();
        assert!(seen.advance(0, 7, 1));
        assert!(!seen.advance(0, 7, 1), "again");
        assert!(
            !seen.advance(0, 3, 1),
            "one before it, by a scorer that was stopped"
        );
        assert!(seen.advance(1, 3, 1), "another partition");
        assert!(seen.advance(0, 9, 1));
        let before = seen.clone();
        assert!(seen.advance(0, 0, 2), "the topic was made anew");
        assert!(seen.advance(1, 13, 1));
        assert_eq!(seen.events_since(&before), 10);
    }
}
