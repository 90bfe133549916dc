//! Which labels are worth asking for.

use std::collections::BTreeMap;

use ostar_engine::Generator;
use serde::{Deserialize, Serialize};

use super::{BlockEvent, LabelUse, memory::Entry};
use crate::Candidate;

/// Why a label is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// The candidates predict different classes: it tells which of them is right.
    Disagreement,
    /// Drawn among all events alike: it tells the shares, whatever has changed.
    Random,
}

/// An event whose label is worth having.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabelRequest {
    /// The event's id.
    pub id: Box<str>,
    /// Why.
    pub kind: RequestKind,
    /// The block of the event, counted from 1.
    pub block: u64,
    /// When the event happened, in milliseconds since 1970.
    pub time_ms: i64,
    /// Predicted class of each candidate, in the order of [`Candidate::ALL`]; of `prior` at its whole strength.
    pub predicted: [u32; 3],
}

impl RequestKind {
    /// The name in metrics and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disagreement => "disagreement",
            Self::Random => "random",
        }
    }
}

impl LabelRequest {
    /// `predicted` are the classes that the candidates predict.
    pub(super) fn new(entry: &Entry, kind: RequestKind, mut predicted: [u32; 3]) -> Self {
        if let Some(change) = entry.change {
            predicted[Candidate::Prior as usize] = change.class;
        }
        Self {
            id: entry.id.clone(),
            kind,
            block: entry.block,
            time_ms: entry.time_ms,
            predicted,
        }
    }
}

/// Rows of a block to ask for. Drawn by the seed and the block's number, never by what was served. A row that is drawn as
/// a random one is one, whether candidates disagree on it or not.
pub(super) fn draw(
    block: u64,
    events: &[BlockEvent<'_>],
    disagree: &[bool],
    settings: &LabelUse,
) -> BTreeMap<usize, RequestKind> {
    let mut asked = BTreeMap::new();
    if settings.disagreements == 0 && settings.random == 0 {
        return asked;
    }
    // A generator of its own: asking for labels must not change what is learned.
    let seed = settings.seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x001a_be15;
    let mut generator = Generator::new(seed);
    let with_id = |row: &usize| events[*row].id.is_some();
    let mut rows: Vec<usize> = (0..events.len()).filter(with_id).collect();
    for row in take(&mut rows, settings.random, &mut generator) {
        asked.insert(row, RequestKind::Random);
    }
    rows.retain(|row| disagree[*row]);
    rows.sort_unstable();
    for row in take(&mut rows, settings.disagreements, &mut generator) {
        asked.insert(row, RequestKind::Disagreement);
    }
    asked
}

/// Removes `count` random rows, or all there are.
fn take(rows: &mut Vec<usize>, count: usize, generator: &mut Generator) -> Vec<usize> {
    let count = count.min(rows.len());
    let drawn = |_| {
        let place = generator.below(rows.len());
        rows.swap_remove(place)
    };
    (0..count).map(drawn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: LabelUse = LabelUse {
        requested: true,
        capacity: 100,
        window: 100,
        disagreements: 10,
        random: 5,
        negatives: None,
        seed: 3,
    };

    #[test]
    fn requests_are_drawn_by_seed_among_rows_with_an_id() {
        let event = |row: usize| BlockEvent {
            id: (!row.is_multiple_of(4)).then_some("x"),
            time_ms: 0,
            sent: None,
        };
        let events: Vec<_> = (0..400).map(event).collect();
        let disagree: Vec<bool> = (0..400).map(|row| usize::is_multiple_of(row, 5)).collect();
        let asked = draw(7, &events, &disagree, &SETTINGS);
        assert_eq!(asked, draw(7, &events, &disagree, &SETTINGS));
        assert_ne!(asked, draw(8, &events, &disagree, &SETTINGS));
        let of = |kind| asked.iter().filter(move |(_, found)| **found == kind);
        assert_eq!(of(RequestKind::Random).count(), 5);
        assert_eq!(of(RequestKind::Disagreement).count(), 10);
        assert!(of(RequestKind::Disagreement).all(|(row, _)| row.is_multiple_of(5)));
        assert!(asked.keys().all(|row| !row.is_multiple_of(4)));
    }

    #[test]
    fn a_block_without_disagreements_asks_for_random_rows_alone() {
        let event = BlockEvent {
            id: Some("x"),
            time_ms: 0,
            sent: None,
        };
        let asked = draw(1, &[event; 3], &[false; 3], &SETTINGS);
        assert_eq!(asked.len(), 3);
        assert!(asked.values().all(|kind| *kind == RequestKind::Random));
    }
}
