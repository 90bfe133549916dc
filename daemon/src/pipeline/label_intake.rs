//! Which labels take effect with which block.
//!
//! Labels and events come from two topics, in an order that depends on timing. What is learned must not: by
//! `labels.taken_by = "time"` a block takes every label whose record was written at least `labels.settle` before the
//! block's newest event. The learner waits until the labels thread has read that far.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use ostar_connectors::{
    event::Offsets,
    labels::{LabelSettings, TakenBy},
};
use ostar_method::learner::ArrivedLabel;
use tracing::{info, warn};

/// What the labels thread tells the learner.
#[derive(Debug)]
pub(crate) enum FromLabels {
    /// The topic is read from these offsets.
    Opened(Offsets),
    /// The next label of a partition.
    Label {
        partition: i32,
        offset: i64,
        label: ArrivedLabel,
    },
    /// A record that is no label. Its offset is taken like one.
    Skipped { partition: i32, offset: i64 },
    /// Everything was read that was written before this time, in milliseconds since 1970.
    CaughtUp(i64),
}

/// Labels that were read and have not taken effect.
pub(crate) struct LabelIntake {
    messages: Receiver<FromLabels>,
    taken_by: TakenBy,
    settle_ms: i64,
    /// Whether a block waits until its labels are read.
    waits: bool,
    /// Longest that it waits. Afterwards labels count as stalled until the thread has caught up.
    patience: Duration,
    /// Most labels that are held; beyond, the labels thread waits.
    capacity: usize,
    partitions: BTreeMap<i32, Partition>,
    held: usize,
    caught_up_ms: i64,
    /// In each partition, the offset behind the last label that took effect.
    offsets: Offsets,
    is_stalled: bool,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Partition {
    waiting: VecDeque<(i64, Option<ArrivedLabel>)>,
    /// Time of the newest label that was read.
    newest_ms: i64,
}

impl LabelIntake {
    /// `offsets` are those of the checkpoint.
    pub(crate) fn new(
        messages: Receiver<FromLabels>,
        settings: &LabelSettings,
        offsets: Offsets,
        waits: bool,
    ) -> Self {
        Self {
            messages,
            taken_by: settings.taken_by,
            settle_ms: settings.settle.get().as_millis() as i64,
            waits,
            patience: settings.patience.get(),
            capacity: settings.cache,
            partitions: BTreeMap::new(),
            held: 0,
            caught_up_ms: i64::MIN,
            offsets,
            is_stalled: false,
            is_closed: false,
        }
    }

    /// In each partition, the offset behind the last label that took effect.
    pub(crate) fn offsets(&self) -> &Offsets {
        &self.offsets
    }

    /// Takes what was read in, without waiting.
    pub(crate) fn fill(&mut self) {
        while self.held < self.capacity {
            match self.messages.try_recv() {
                Ok(message) => self.note(message),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    fn note(&mut self, message: FromLabels) {
        match message {
            FromLabels::Opened(offsets) => {
                for (partition, offset) in offsets {
                    self.partitions.entry(partition).or_default();
                    self.offsets.entry(partition).or_insert(offset);
                }
            }
            FromLabels::Label {
                partition,
                offset,
                label,
            } => self.hold(partition, offset, Some(label)),
            FromLabels::Skipped { partition, offset } => self.hold(partition, offset, None),
            FromLabels::CaughtUp(until_ms) => self.caught_up_ms = until_ms.max(self.caught_up_ms),
        }
    }

    fn hold(&mut self, partition: i32, offset: i64, label: Option<ArrivedLabel>) {
        let held = self.partitions.entry(partition).or_default();
        if let Some(label) = &label {
            held.newest_ms = label.time_ms.max(held.newest_ms);
        }
        held.waiting.push_back((offset, label));
        self.held += 1;
    }

    /// The labels that take effect with a block whose newest event was written at `border_ms`.
    pub(crate) fn take(&mut self, border_ms: i64) -> Vec<ArrivedLabel> {
        self.fill();
        let limit = match self.taken_by {
            TakenBy::Time => border_ms.saturating_sub(self.settle_ms),
            TakenBy::Arrival => i64::MAX,
        };
        if self.waits && self.taken_by == TakenBy::Time {
            self.wait(limit);
        }
        let mut taken = Vec::new();
        for (number, partition) in &mut self.partitions {
            let is_due = |(_, label): &(i64, Option<ArrivedLabel>)| {
                label.as_ref().is_none_or(|label| label.time_ms <= limit)
            };
            while partition.waiting.front().is_some_and(is_due)
                && let Some((offset, label)) = partition.waiting.pop_front()
            {
                self.held -= 1;
                self.offsets.insert(*number, offset + 1);
                taken.extend(label);
            }
        }
        taken
    }

    /// Waits until all labels up to `limit_ms` are read, but not for ever: learning goes on without labels.
    fn wait(&mut self, limit_ms: i64) {
        if self.is_complete(limit_ms) {
            if std::mem::take(&mut self.is_stalled) {
                info!("labels are read in time again");
            }
            return;
        }
        if self.is_stalled || self.is_closed {
            return;
        }
        let deadline = Instant::now() + self.patience;
        while !self.is_complete(limit_ms) {
            match self.messages.recv_deadline(deadline) {
                Ok(message) => self.note(message),
                Err(RecvTimeoutError::Timeout) => {
                    self.is_stalled = true;
                    warn!(
                        "labels are not read in time; learning goes on without them, and a replay may take them with \
                         other blocks"
                    );
                    return;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.is_closed = true;
                    return;
                }
            }
        }
    }

    fn is_complete(&self, limit_ms: i64) -> bool {
        let passed = |partition: &Partition| partition.newest_ms > limit_ms;
        self.caught_up_ms >= limit_ms
            || (!self.partitions.is_empty() && self.partitions.values().all(passed))
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Sender, unbounded};
    use ostar_connectors::settings::Period;

    use super::*;

    fn label(offset: i64, time_ms: i64) -> FromLabels {
        FromLabels::Label {
            partition: 0,
            offset,
            label: ArrivedLabel {
                id: format!("event-{offset}").into(),
                class: 0,
                time_ms,
            },
        }
    }

    fn intake(taken_by: TakenBy, waits: bool) -> (Sender<FromLabels>, LabelIntake) {
        let (sender, receiver) = unbounded();
        let settings = LabelSettings {
            taken_by,
            settle: Period::from_millis(100),
            ..LabelSettings::default()
        };
        let intake = LabelIntake::new(receiver, &settings, Offsets::new(), waits);
        (sender, intake)
    }

    fn ids(labels: Vec<ArrivedLabel>) -> Vec<String> {
        labels.iter().map(|label| label.id.to_string()).collect()
    }

    #[test]
    fn a_block_takes_the_labels_before_its_border_however_early_they_were_read() {
        let (sender, mut intake) = intake(TakenBy::Time, true);
        let messages = [
            FromLabels::Opened(Offsets::from([(0, 3)])),
            label(3, 1_000),
            FromLabels::Skipped {
                partition: 0,
                offset: 4,
            },
            label(5, 1_500),
            label(6, 1_400),
            label(7, 9_000),
        ];
        for message in messages {
            sender.send(message).unwrap();
        }
        assert_eq!(ids(intake.take(1_099)), Vec::<String>::new());
        assert_eq!(intake.offsets(), &Offsets::from([(0, 3)]));
        assert_eq!(ids(intake.take(1_100)), ["event-3"]);
        assert_eq!(intake.offsets(), &Offsets::from([(0, 5)]));
        // One that is older than the label before it comes with that.
        assert_eq!(ids(intake.take(1_550)), Vec::<String>::new());
        assert_eq!(ids(intake.take(1_600)), ["event-5", "event-6"]);
        assert_eq!((intake.held, intake.offsets()[&0]), (1, 7));
    }

    #[test]
    fn a_block_waits_until_labels_are_read_as_far_as_its_border() {
        let (sender, mut intake) = intake(TakenBy::Time, true);
        sender
            .send(FromLabels::Opened(Offsets::from([(0, 0)])))
            .unwrap();
        let thread = std::thread::spawn(move || {
            sender.send(label(0, 500)).unwrap();
            sender.send(label(1, 700)).unwrap();
            sender.send(FromLabels::CaughtUp(950)).unwrap();
            sender
        });
        assert_eq!(ids(intake.take(1_000)), ["event-0", "event-1"]);
        drop(thread.join().unwrap());
        // The thread has ended: nothing is waited for.
        assert_eq!(ids(intake.take(5_000)), Vec::<String>::new());
    }

    #[test]
    fn by_arrival_a_block_takes_what_is_there() {
        let (sender, mut intake) = intake(TakenBy::Arrival, true);
        sender.send(label(0, 77_000)).unwrap();
        assert_eq!(ids(intake.take(0)), ["event-0"]);
        assert_eq!(ids(intake.take(0)), Vec::<String>::new());
    }
}
