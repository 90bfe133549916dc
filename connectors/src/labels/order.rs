//! The first labels, kept until they say whether the order of the bundle's classes is the right one.

use ostar_engine::Rows;
use ostar_method::diagnostics::{OrderCheck, check_class_order};

/// Labels before the first look. Each further look is at twice as many.
const FIRST_LOOK: usize = 200;
/// Labels of the last look.
const MOST_LABELS: usize = 12_800;
/// Most bytes of probabilities: with more than 327 classes the last look comes sooner.
const MOST_BYTES: usize = 16 << 20;

/// Labels, and what the frozen model predicted for their events.
#[derive(Debug, Clone)]
pub struct OrderRows {
    classes: usize,
    labels: Vec<u32>,
    probabilities: Vec<f32>,
}

#[derive(Debug)]
pub(super) struct OrderWatch {
    rows: OrderRows,
    /// Labels at which the next look is due.
    next: usize,
    most: usize,
    /// Labels at the last look.
    seen: usize,
}

impl OrderRows {
    /// What the labels say about the order of the classes.
    pub fn check(&self) -> ostar_engine::Result<OrderCheck> {
        let rows = Rows::new(&self.probabilities[..], self.classes)?;
        check_class_order(rows, &self.labels)
    }
}

impl OrderWatch {
    pub(super) fn new(classes: usize) -> Self {
        let room = MOST_BYTES / (classes * size_of::<f32>()).max(1);
        Self {
            rows: OrderRows {
                classes,
                labels: Vec::new(),
                probabilities: Vec::new(),
            },
            next: FIRST_LOOK,
            most: room.clamp(FIRST_LOOK, MOST_LABELS),
            seen: 0,
        }
    }

    pub(super) fn add(&mut self, label: u32, probabilities: &[f32]) {
        if self.rows.labels.len() < self.most {
            self.rows.labels.push(label);
            self.rows.probabilities.extend_from_slice(probabilities);
        }
    }

    pub(super) fn due(&mut self) -> Option<OrderRows> {
        if self.most == 0 || self.rows.labels.len() < self.next.min(self.most) {
            return None;
        }
        self.next *= 2;
        self.rest()
    }

    pub(super) fn rest(&mut self) -> Option<OrderRows> {
        if self.rows.labels.len() == self.seen {
            return None;
        }
        self.seen = self.rows.labels.len();
        let rows = self.rows.clone();
        if self.seen == self.most {
            self.end();
        }
        Some(rows)
    }

    pub(super) fn end(&mut self) {
        self.rows.labels = Vec::new();
        self.rows.probabilities = Vec::new();
        (self.most, self.seen) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(watch: &mut OrderWatch, count: usize) {
        for number in 0..count {
            let label = (number % 2) as u32;
            let right = 0.6 + (number % 7) as f32 / 100.0;
            let row = if label == 0 {
                [right, 1.0 - right]
            } else {
                [1.0 - right, right]
            };
            watch.add(label, &row);
        }
    }

    #[test]
    fn labels_are_looked_at_after_200_and_whenever_they_have_doubled() {
        let mut watch = OrderWatch::new(2);
        add(&mut watch, 199);
        assert!(watch.due().is_none());
        add(&mut watch, 1);
        let rows = watch.due().unwrap();
        assert_eq!(rows.labels.len(), 200);
        let check = rows.check().unwrap();
        assert_eq!((check.better, check.unchecked), (None, vec![]));
        add(&mut watch, 150);
        assert!(watch.due().is_none());
        // What has come since can be asked for at the end of a file.
        assert_eq!(watch.rest().unwrap().labels.len(), 350);
        assert!(watch.rest().is_none());
        add(&mut watch, 50);
        assert_eq!(watch.due().unwrap().labels.len(), 400);
        watch.end();
        add(&mut watch, 1_000);
        assert!(watch.due().is_none() && watch.rest().is_none());
    }

    #[test]
    fn a_look_at_the_most_labels_is_the_last_and_nothing_is_kept_after_it() {
        for (classes, most) in [(2, MOST_LABELS), (1_000, 4_194), (1_000_000, FIRST_LOOK)] {
            let mut watch = OrderWatch::new(classes);
            assert_eq!(watch.most, most);
            if classes > 2 {
                continue;
            }
            let mut looks = 0;
            for _ in 0..2 * most {
                add(&mut watch, 1);
                looks += usize::from(watch.due().is_some());
            }
            assert_eq!(looks, 7);
            assert_eq!(watch.rows.labels.capacity(), 0);
        }
    }
}
