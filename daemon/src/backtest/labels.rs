//! Labels of the files, which reach the learner by the same intake as those of a topic.

use std::collections::BTreeMap;

use crossbeam_channel::{Sender, unbounded};
use ostar_connectors::{
    event::Offsets,
    labels::{LabelSettings, TakenBy},
};
use ostar_method::learner::ArrivedLabel;

use crate::pipeline::{FromLabels, LabelIntake};

/// Labels in the order of the times at which they are known, as a topic would have them.
pub(super) struct FileLabels {
    sender: Sender<FromLabels>,
    /// By time, and by the order of the file.
    ahead: BTreeMap<(i64, i64), ArrivedLabel>,
    read: i64,
    sent: i64,
}

impl FileLabels {
    /// With the learner's end. In files without times labels are known with their events.
    pub(super) fn new(settings: &LabelSettings, has_times: bool) -> (Self, LabelIntake) {
        let (sender, messages) = unbounded();
        let settings = LabelSettings {
            taken_by: if has_times {
                settings.taken_by
            } else {
                TakenBy::Arrival
            },
            ..settings.clone()
        };
        // Nothing is waited for: whatever a block may take is there before it is closed.
        let intake = LabelIntake::new(messages, &settings, Offsets::new(), true);
        let labels = Self {
            sender,
            ahead: BTreeMap::new(),
            read: 0,
            sent: 0,
        };
        (labels, intake)
    }

    pub(super) fn add(&mut self, label: ArrivedLabel) {
        self.ahead.insert((label.time_ms, self.read), label);
        self.read += 1;
    }

    /// Gives the learner everything that is known at this time.
    pub(super) fn give_until(&mut self, time_ms: i64) {
        let later = match time_ms.checked_add(1) {
            Some(next) => self.ahead.split_off(&(next, 0)),
            None => BTreeMap::new(),
        };
        let due = std::mem::replace(&mut self.ahead, later);
        let labels = due.into_values().map(|label| {
            self.sent += 1;
            FromLabels::Label {
                partition: 0,
                offset: self.sent - 1,
                label,
            }
        });
        for message in labels.chain([FromLabels::CaughtUp(time_ms)]) {
            // The learner, which has the other end, lives as long as this.
            let _ = self.sender.send(message);
        }
    }
}
