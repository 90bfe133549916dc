//! The position in each partition, and where to continue when the broker no longer has the next offset.

use std::{collections::BTreeMap, fmt};

use super::{
    settings::OnLostOffsets,
    topic::{Partitions, Watermarks},
};
use crate::event::Offsets;

/// Offsets of a partition that were skipped because the broker no longer has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostOffsets {
    /// Partition of the skipped offsets.
    pub partition: i32,
    /// Offset that should have been read next.
    pub expected: i64,
    /// Offset that is read next instead.
    pub resumed_at: i64,
    /// Offsets skipped. After a topic was recreated, what the old one still held is unknown and not counted.
    pub lost: u64,
    /// Why the offset is gone.
    pub cause: LossCause,
}

/// Why the next offset of a partition is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossCause {
    /// Retention removed events before they were read.
    Retention,
    /// The broker has lost the end of its log. New events get offsets that others had.
    Truncated,
    /// The topic was deleted and made anew. All of its events are new.
    Recreated,
}

/// How far reading is behind the end of a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionLag {
    /// Partition that was measured.
    pub partition: i32,
    /// Events not read yet, by the watermarks of the last look at the broker.
    pub records: u64,
    /// Age of the last event read; 0 if there is nothing to read, `None` before the first event.
    pub seconds: Option<f64>,
}

/// Position in each partition that is read.
#[derive(Debug, Default)]
pub(super) struct Progress {
    partitions: BTreeMap<i32, Position>,
}

#[derive(Debug)]
struct Position {
    next: i64,
    high: i64,
    last_time_ms: Option<i64>,
}

// === impl LossCause ===

impl LossCause {
    /// In metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Truncated => "truncated",
            Self::Recreated => "recreated",
        }
    }

    /// Whether events from the resumed offset on are new, although events with these offsets were read before.
    pub fn repeats_offsets(self) -> bool {
        self != Self::Retention
    }
}

// === impl LostOffsets ===

impl fmt::Display for LostOffsets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            LossCause::Retention => "retention removed events before they were read",
            LossCause::Truncated => "the broker lost the end of its log",
            LossCause::Recreated => "the topic was recreated",
        };
        write!(
            formatter,
            "offset {} of partition {} is gone ({cause}): reading continues at {}, {} offsets lost",
            self.expected, self.partition, self.resumed_at, self.lost
        )
    }
}

// === impl Progress ===

impl Progress {
    /// Adds a partition that is read from offset `next` on.
    pub(super) fn start(&mut self, partition: i32, next: i64, watermarks: Watermarks) {
        let position = Position {
            next,
            high: watermarks.high,
            last_time_ms: None,
        };
        self.partitions.insert(partition, position);
    }

    /// The offset to read next in each partition.
    pub(super) fn offsets(&self) -> Offsets {
        let positions = self.partitions.iter();
        positions
            .map(|(id, position)| (*id, position.next))
            .collect()
    }

    /// Moves past an event; `false` if it has been read before, as happens after partitions are assigned again.
    pub(super) fn advance(&mut self, partition: i32, offset: i64, time_ms: Option<i64>) -> bool {
        match self.partitions.get_mut(&partition) {
            Some(position) if offset >= position.next => {
                position.next = offset + 1;
                position.last_time_ms = time_ms;
                true
            }
            _ => false,
        }
    }

    /// These partitions are not read any more.
    pub(super) fn forget(&mut self, partitions: &[i32]) {
        self.partitions
            .retain(|partition, _| !partitions.contains(partition));
    }

    /// Adds partitions that were not known before, from their beginning, and returns them.
    pub(super) fn add_new(&mut self, found: &Partitions) -> Vec<i32> {
        let mut added = Vec::new();
        for (partition, watermarks) in found {
            if !self.partitions.contains_key(partition) {
                self.start(*partition, watermarks.low, *watermarks);
                added.push(*partition);
            }
        }
        added
    }

    /// Keeps the ends of the partitions for [`Progress::lags`].
    pub(super) fn note_watermarks(&mut self, found: &Partitions) {
        for (partition, watermarks) in found {
            if let Some(position) = self.partitions.get_mut(partition) {
                position.high = watermarks.high;
            }
        }
    }

    /// Moves partitions whose next offset the broker does not have. A partition that has advanced since `asked_at` is
    /// skipped: `found` may be older than its position. `is_same` tells that the topic is known to be the same as before.
    pub(super) fn skip_lost(
        &mut self,
        asked_at: &Offsets,
        found: &Partitions,
        choice: OnLostOffsets,
        is_same: bool,
    ) -> Vec<LostOffsets> {
        let mut losses = Vec::new();
        for (partition, watermarks) in found {
            let Some(position) = self.partitions.get_mut(partition) else {
                continue;
            };
            let expected = position.next;
            let held = watermarks.low..=watermarks.high;
            if asked_at.get(partition) != Some(&expected) || held.contains(&expected) {
                continue;
            }
            let cause = if expected <= watermarks.high {
                LossCause::Retention
            } else if is_same {
                LossCause::Truncated
            } else {
                LossCause::Recreated
            };
            losses.push(position.skip(*partition, *watermarks, choice, cause));
        }
        losses
    }

    /// Starts over in all partitions, because the topic was recreated. Those that it no longer has are forgotten.
    pub(super) fn restart(
        &mut self,
        found: &Partitions,
        choice: OnLostOffsets,
    ) -> Vec<LostOffsets> {
        self.partitions
            .retain(|partition, _| found.contains_key(partition));
        let mut losses = Vec::new();
        for (partition, watermarks) in found {
            if let Some(position) = self.partitions.get_mut(partition) {
                let cause = LossCause::Recreated;
                losses.push(position.skip(*partition, *watermarks, choice, cause));
            }
        }
        losses
    }

    /// `reached` are the client's own positions. Behind the last event there may be markers of transactions, which are
    /// no events and move only these.
    pub(super) fn lags(&self, now_ms: i64, reached: &Offsets) -> Vec<PartitionLag> {
        let lag = |(partition, position): (&i32, &Position)| {
            let next = reached
                .get(partition)
                .map_or(position.next, |at| position.next.max(*at));
            let records = (position.high - next).max(0).unsigned_abs();
            let age = |time_ms: i64| (now_ms - time_ms).max(0) as f64 / 1_000.0;
            let seconds = match records {
                0 => Some(0.0),
                _ => position.last_time_ms.map(age),
            };
            PartitionLag {
                partition: *partition,
                records,
                seconds,
            }
        };
        self.partitions.iter().map(lag).collect()
    }
}

// === impl Position ===

impl Position {
    fn skip(
        &mut self,
        partition: i32,
        watermarks: Watermarks,
        choice: OnLostOffsets,
        cause: LossCause,
    ) -> LostOffsets {
        let expected = self.next;
        let resumed_at = match (cause, choice) {
            // All before the end was read, and the rest is gone.
            (LossCause::Truncated, _) | (_, OnLostOffsets::Latest) => watermarks.high,
            (_, OnLostOffsets::Earliest | OnLostOffsets::Stop) => watermarks.low,
        };
        let first_lost = match cause {
            LossCause::Retention => expected,
            LossCause::Truncated => resumed_at,
            LossCause::Recreated => watermarks.low,
        };
        self.next = resumed_at;
        LostOffsets {
            partition,
            expected,
            resumed_at,
            lost: (resumed_at - first_lost).unsigned_abs(),
            cause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(low: i64, high: i64) -> Partitions {
        Partitions::from([(0, Watermarks { low, high })])
    }

    fn reading_at(next: i64) -> Progress {
        let mut progress = Progress::default();
        progress.start(0, next, Watermarks { low: 0, high: next });
        progress
    }

    fn skip(next: i64, found: &Partitions, choice: OnLostOffsets) -> Option<(i64, u64, bool)> {
        let mut progress = reading_at(next);
        let losses = progress.skip_lost(&progress.offsets(), found, choice, false);
        let loss = losses.first()?;
        assert_eq!(progress.offsets()[&0], loss.resumed_at);
        let recreated = loss.cause == LossCause::Recreated;
        Some((loss.resumed_at, loss.lost, recreated))
    }

    #[test]
    fn offsets_removed_by_retention_are_counted() {
        use OnLostOffsets::{Earliest, Latest};
        assert_eq!(skip(10, &holds(25, 40), Earliest), Some((25, 15, false)));
        assert_eq!(skip(10, &holds(25, 40), Latest), Some((40, 30, false)));
        assert_eq!(skip(25, &holds(25, 40), Earliest), None);
        assert_eq!(skip(40, &holds(25, 40), Earliest), None);
    }

    #[test]
    fn a_recreated_topic_is_read_from_its_beginning() {
        use OnLostOffsets::{Earliest, Latest};
        assert_eq!(skip(100, &holds(0, 7), Earliest), Some((0, 0, true)));
        assert_eq!(skip(100, &holds(0, 7), Latest), Some((7, 7, true)));
    }

    #[test]
    fn a_truncated_partition_is_read_on_at_its_end() {
        let mut progress = reading_at(100);
        let (at, choice) = (progress.offsets(), OnLostOffsets::Earliest);
        let losses = progress.skip_lost(&at, &holds(0, 60), choice, true);
        let [loss] = &losses[..] else {
            panic!("{losses:?}");
        };
        assert_eq!(loss.cause, LossCause::Truncated);
        assert_eq!((loss.resumed_at, loss.lost), (60, 0));
    }

    #[test]
    fn a_topic_made_anew_is_read_from_its_beginning_however_long_it_is() {
        let mut progress = reading_at(100);
        progress.start(1, 7, Watermarks { low: 0, high: 9 });
        let losses = progress.restart(&holds(0, 5_000), OnLostOffsets::Earliest);
        assert_eq!(losses.len(), 1, "the new topic has one partition");
        assert_eq!(losses[0].cause, LossCause::Recreated);
        assert_eq!(progress.offsets(), Offsets::from([(0, 0)]));
    }

    #[test]
    fn a_partition_that_was_read_from_since_the_look_is_left_alone() {
        let mut progress = reading_at(10);
        let asked_at = progress.offsets();
        assert!(progress.advance(0, 10, None));
        let choice = OnLostOffsets::Earliest;
        let losses = progress.skip_lost(&asked_at, &holds(25, 40), choice, true);
        assert_eq!(losses, []);
    }

    #[test]
    fn an_event_is_read_once() {
        let mut progress = reading_at(10);
        assert!(!progress.advance(0, 9, None));
        assert!(progress.advance(0, 12, None), "compaction leaves gaps");
        assert!(!progress.advance(0, 12, None));
        assert_eq!(progress.offsets(), Offsets::from([(0, 13)]));
    }

    #[test]
    fn lag_is_counted_in_records_and_in_the_age_of_the_last_event() {
        let mut progress = reading_at(10);
        let lag = |progress: &Progress| progress.lags(5_000, &Offsets::new())[0].clone();
        assert_eq!(lag(&progress).seconds, Some(0.0));
        progress.note_watermarks(&holds(0, 30));
        assert_eq!(lag(&progress).seconds, None);
        progress.advance(0, 10, Some(2_000));
        let lag = lag(&progress);
        assert_eq!((lag.records, lag.seconds), (19, Some(3.0)));
    }

    #[test]
    fn a_marker_of_a_transaction_behind_the_last_event_is_no_lag() {
        let mut progress = reading_at(10);
        progress.advance(0, 10, Some(2_000));
        // Offset 11 is the marker, which nobody gets to see.
        progress.note_watermarks(&holds(0, 12));
        let lag = |at| progress.lags(5_000, &Offsets::from([(0, at)]))[0].clone();
        assert_eq!((lag(11).records, lag(11).seconds), (1, Some(3.0)));
        assert_eq!((lag(12).records, lag(12).seconds), (0, Some(0.0)));
        // A position from before the partition was assigned again does not count.
        assert_eq!(lag(3).records, 1);
    }
}
