//! Joins predictions and labels by id, in either order, in bounded memory.

use std::collections::{HashMap, VecDeque};

use twox_hash::XxHash64;

use super::{
    LabelSettings, Predictor,
    measures::{Measurement, Sample, Sums, measure},
    order::{OrderRows, OrderWatch},
};

/// Joins late labels with the predictions for their events and measures how good those were.
#[derive(Debug)]
pub struct LabelJoin {
    classes: usize,
    /// Joined predictions stay until they are the oldest, so that a second label is recognised as a duplicate.
    predictions: Fifo<Prediction>,
    /// Labels that came before their predictions; `None` once joined, to recognise duplicates.
    early: Fifo<Option<u32>>,
    window: VecDeque<Sample>,
    window_size: usize,
    total: Sums,
    order: OrderWatch,
    counts: LabelCounts,
}

/// Counts of labels by their fate, since the start except for `waiting`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelCounts {
    /// Joined with a prediction and measured.
    pub joined: u64,
    /// Second labels for an id; not measured.
    pub duplicates: u64,
    /// Dropped from the cache while waiting: the prediction had left the cache before, or never came.
    pub expired: u64,
    /// Labels in the cache that wait for a prediction.
    pub waiting: u64,
    /// Predictions (not labels) that left the cache without a label.
    pub unlabelled: u64,
}

/// Label counts and the measures they allow.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelReport {
    /// Since the start of the process.
    pub counts: LabelCounts,
    /// Over the newest `labels.window` joined labels; `None` before the first one.
    pub window: Option<Measurement>,
    /// Over all joined labels since the start; `None` before the first one.
    pub total: Option<Measurement>,
}

#[derive(Debug)]
enum Prediction {
    /// Probabilities of all predictors, one predictor after the other.
    Waiting(Box<[f32]>),
    Joined,
}

// === impl LabelJoin ===

impl LabelJoin {
    /// An empty join for a bundle with so many classes.
    pub fn new(settings: &LabelSettings, classes: usize) -> Self {
        let probabilities = Predictor::ALL.len() * classes;
        Self {
            classes,
            predictions: Fifo::new(settings.most_predictions(probabilities)),
            early: Fifo::new(settings.cache),
            window: VecDeque::new(),
            window_size: settings.most_in_window(probabilities).max(1),
            total: Sums::new(classes),
            order: OrderWatch::new(classes),
            counts: LabelCounts::default(),
        }
    }

    /// Predictions that may wait for their labels.
    pub fn capacity(&self) -> usize {
        self.predictions.capacity
    }

    /// Adds the probabilities of all predictors, in the order of [`Predictor::ALL`]. A second prediction for an id
    /// (an event that was delivered again) is ignored.
    ///
    /// # Panics
    /// Unless each predictor has one probability per class.
    pub fn add_prediction(&mut self, id: &str, probabilities: [&[f32]; Predictor::ALL.len()]) {
        let whole = |row: &&[f32]| row.len() == self.classes;
        assert!(probabilities.iter().all(whole), "one probability per class");
        if self.predictions.get_mut(id).is_some() {
            return;
        }
        let row: Box<[f32]> = probabilities.concat().into();
        let label = self.early.get_mut(id).and_then(Option::take);
        let prediction = match label {
            Some(class) => {
                self.counts.waiting -= 1;
                self.join(class, row);
                Prediction::Joined
            }
            None => Prediction::Waiting(row),
        };
        if let Some(Prediction::Waiting(_)) = self.predictions.push(id, prediction) {
            self.counts.unlabelled += 1;
        }
    }

    /// Adds the true class of an event.
    ///
    /// # Panics
    /// Unless `class` is an index of the bundle's classes, which [`LabelDecoder`](super::LabelDecoder) guarantees.
    pub fn add_label(&mut self, id: &str, class: u32) {
        assert!((class as usize) < self.classes, "labels were checked");
        match self.predictions.get_mut(id) {
            Some(prediction) => match std::mem::replace(prediction, Prediction::Joined) {
                Prediction::Waiting(row) => self.join(class, row),
                Prediction::Joined => self.counts.duplicates += 1,
            },
            None if self.early.get_mut(id).is_some() => self.counts.duplicates += 1,
            None => {
                self.counts.waiting += 1;
                if let Some(Some(_)) = self.early.push(id, Some(class)) {
                    self.counts.waiting -= 1;
                    self.counts.expired += 1;
                }
            }
        }
    }

    /// The current figures. Sorts the whole window for the AUC: call it when somebody asks, not with every label.
    pub fn report(&self) -> LabelReport {
        LabelReport {
            counts: self.counts,
            window: measure(&self.window, self.classes),
            total: self.total.measured(|_| None),
        }
    }

    /// The first labels and what the frozen model predicted, when there are enough to look again whether the order of the
    /// classes fits them: 200, then twice as many each time. `None` once the order is known.
    pub fn order_rows(&mut self) -> Option<OrderRows> {
        self.order.due()
    }

    /// The same of all labels so far, if there are any that were not looked at.
    pub fn last_order_rows(&mut self) -> Option<OrderRows> {
        self.order.rest()
    }

    /// The order of all classes is confirmed: nothing is kept for it any more.
    pub fn order_is_known(&mut self) {
        self.order.end();
    }

    fn join(&mut self, class: u32, probabilities: Box<[f32]>) {
        let sample = Sample {
            class,
            probabilities,
        };
        self.counts.joined += 1;
        self.total.add(&sample);
        self.order.add(class, sample.of(0));
        if self.window.len() == self.window_size {
            self.window.pop_front();
        }
        self.window.push_back(sample);
    }
}

/// Values by id that drop the oldest when they are full. An id is stored once.
#[derive(Debug)]
struct Fifo<V> {
    capacity: usize,
    entries: VecDeque<(Box<str>, V)>,
    /// Number of the oldest entry; numbers go on for ever.
    first: u64,
    /// By the hash of their ids. Of two ids with one hash only the newer is found: one in 10^14 pairs.
    numbers: HashMap<u64, u64>,
}

fn hash(id: &str) -> u64 {
    XxHash64::oneshot(0, id.as_bytes())
}

impl<V> Fifo<V> {
    fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            entries: VecDeque::new(),
            first: 0,
            numbers: HashMap::new(),
        }
    }

    fn get_mut(&mut self, id: &str) -> Option<&mut V> {
        let number = self.numbers.get(&hash(id))?;
        let (found, value) = self.entries.get_mut((number - self.first) as usize)?;
        (**found == *id).then_some(value)
    }

    /// Adds a value under an id that has none; returns the value that was dropped for it.
    fn push(&mut self, id: &str, value: V) -> Option<V> {
        let number = self.first + self.entries.len() as u64;
        self.numbers.insert(hash(id), number);
        self.entries.push_back((id.into(), value));
        if self.entries.len() <= self.capacity {
            return None;
        }
        let (oldest, value) = self.entries.pop_front()?;
        let key = hash(&oldest);
        if self.numbers.get(&key) == Some(&self.first) {
            self.numbers.remove(&key);
        }
        self.first += 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: [&[f32]; 4] = [&[0.9, 0.1]; 4];

    fn join(capacity: usize, window: usize) -> LabelJoin {
        let settings = LabelSettings {
            cache: capacity,
            window,
            ..LabelSettings::default()
        };
        LabelJoin::new(&settings, 2)
    }

    #[test]
    fn labels_join_in_either_order_and_once() {
        let mut join = join(10, 10);
        join.add_prediction("a", RIGHT);
        join.add_label("a", 0);
        join.add_label("b", 1);
        assert_eq!(join.report().counts.waiting, 1);
        join.add_prediction("b", RIGHT);
        // Again: a duplicate label, a second delivery, and both.
        join.add_label("a", 1);
        join.add_label("b", 0);
        join.add_prediction("a", RIGHT);
        join.add_label("a", 0);
        let report = join.report();
        assert_eq!((report.counts.joined, report.counts.duplicates), (2, 3));
        assert_eq!(report.counts.waiting, 0);
        let total = report.total.unwrap();
        assert_eq!(total.labels, 2);
        assert_eq!(total.by_predictor[0].accuracy, 0.5);
        assert_eq!(total.by_predictor[0].auc, None);
        assert!(report.window.unwrap().by_predictor[0].auc.is_some());
    }

    #[test]
    fn a_label_that_comes_too_late_expires_and_is_not_measured() {
        let mut join = join(2, 10);
        for id in ["a", "b", "c"] {
            join.add_prediction(id, RIGHT);
        }
        for id in ["a", "b", "c"] {
            join.add_label(id, 0);
        }
        let counts = join.report().counts;
        assert_eq!(
            (counts.joined, counts.unlabelled, counts.waiting),
            (2, 1, 1)
        );
        join.add_label("x", 0);
        join.add_label("y", 0);
        let counts = join.report().counts;
        assert_eq!((counts.expired, counts.waiting), (1, 2));
    }

    #[test]
    fn the_window_slides_and_the_total_stays() {
        let mut join = join(100, 3);
        for number in 0..10 {
            let id = number.to_string();
            join.add_prediction(&id, RIGHT);
            join.add_label(&id, u32::from(number < 5));
        }
        let report = join.report();
        let window = report.window.unwrap();
        assert_eq!(
            (window.labels, &window.proportions[..]),
            (3, &[1.0, 0.0][..])
        );
        assert_eq!(window.by_predictor[3].accuracy, 1.0);
        let total = report.total.unwrap();
        assert_eq!((total.labels, total.by_predictor[3].accuracy), (10, 0.5));
    }

    #[test]
    fn memory_stays_bounded() {
        let mut join = join(5, 5);
        for number in 0..1000 {
            join.add_label(&number.to_string(), 0);
            join.add_prediction(&(number + 3).to_string(), RIGHT);
        }
        assert!(join.predictions.numbers.len() <= 5 && join.predictions.entries.len() <= 5);
        assert!(join.early.numbers.len() <= 5 && join.early.entries.len() <= 5);
    }

    #[test]
    fn with_many_classes_fewer_predictions_wait_than_with_two() {
        let settings = LabelSettings {
            cache: 1_000,
            cache_bytes: 1_000_000,
            ..LabelSettings::default()
        };
        assert_eq!(LabelJoin::new(&settings, 2).capacity(), 1_000);
        let mut join = LabelJoin::new(&settings, 1_000);
        let row = vec![0.001; 1_000];
        for number in 0..200 {
            join.add_prediction(&number.to_string(), [&row; 4]);
        }
        // 16,000 bytes of probabilities each.
        assert!((55..65).contains(&join.capacity()), "{}", join.capacity());
        assert_eq!(join.predictions.entries.len(), join.capacity());
        for number in 0..200 {
            join.add_label(&number.to_string(), 7);
        }
        let counts = join.report().counts;
        assert_eq!(counts.joined, join.capacity() as u64);
        assert_eq!(join.window.len(), join.window_size);
        assert!(join.window_size < 65);
    }
}
