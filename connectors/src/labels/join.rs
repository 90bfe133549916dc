//! Predictions and labels, joined by id whichever comes first, in bounded memory.

use std::collections::{HashMap, VecDeque};

use super::{
    LabelSettings, Predictor,
    measures::{Measured, Sample, Sums, measure},
};

/// Joins late labels with the predictions made for their events, and measures.
#[derive(Debug)]
pub struct LabelJoin {
    classes: usize,
    /// Predictions; those that are joined stay until their turn, so that a second label is known as such.
    predictions: Fifo<Prediction>,
    /// Labels that came before their predictions; `None` once it came.
    early: Fifo<Option<u32>>,
    window: VecDeque<Sample>,
    window_size: usize,
    total: Sums,
    counts: LabelCounts,
}

/// What became of the labels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelCounts {
    /// Joined with their prediction.
    pub joined: u64,
    /// Came again for an id that had one already; not counted in the measures.
    pub duplicates: u64,
    /// Given up: their prediction had left the cache before they came, or never came itself.
    pub expired: u64,
    /// Waiting for their prediction now.
    pub waiting: u64,
    /// Predictions that left the cache without a label.
    pub unlabelled: u64,
}

/// What is known from labels.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelReport {
    /// What became of the labels.
    pub counts: LabelCounts,
    /// Over the newest joined labels; `None` before the first one.
    pub window: Option<Measured>,
    /// Over all joined labels since the start; `None` before the first one.
    pub total: Option<Measured>,
}

#[derive(Debug)]
enum Prediction {
    /// The candidates' probabilities, candidate after candidate.
    Waiting(Box<[f32]>),
    Joined,
}

// === impl LabelJoin ===

impl LabelJoin {
    /// Nothing joined yet.
    pub fn new(settings: &LabelSettings, classes: usize) -> Self {
        Self {
            classes,
            predictions: Fifo::new(settings.cache),
            early: Fifo::new(settings.cache),
            window: VecDeque::new(),
            window_size: settings.window.max(1),
            total: Sums::new(classes),
            counts: LabelCounts::default(),
        }
    }

    /// What the candidates, in the order of [`Predictor::ALL`], predicted for an event. A second prediction for
    /// an id (an event that was delivered again) changes nothing.
    ///
    /// # Panics
    /// Unless each candidate has one probability a class.
    pub fn predicted(&mut self, id: &str, probabilities: [&[f32]; Predictor::ALL.len()]) {
        let whole = |row: &&[f32]| row.len() == self.classes;
        assert!(probabilities.iter().all(whole), "one probability a class");
        if self.predictions.entries.contains_key(id) {
            return;
        }
        let row: Box<[f32]> = probabilities.concat().into();
        let label = self.early.entries.get_mut(id).and_then(Option::take);
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

    /// The truth about an event.
    ///
    /// # Panics
    /// Unless `class` is one of the classes.
    pub fn label(&mut self, id: &str, class: u32) {
        assert!((class as usize) < self.classes, "labels were checked");
        match self.predictions.entries.get_mut(id) {
            Some(prediction) => match std::mem::replace(prediction, Prediction::Joined) {
                Prediction::Waiting(row) => self.join(class, row),
                Prediction::Joined => self.counts.duplicates += 1,
            },
            None if self.early.entries.contains_key(id) => self.counts.duplicates += 1,
            None => {
                self.counts.waiting += 1;
                if let Some(Some(_)) = self.early.push(id, Some(class)) {
                    self.counts.waiting -= 1;
                    self.counts.expired += 1;
                }
            }
        }
    }

    /// What is known now. Looks at the whole window: call it when somebody asks, not with every label.
    pub fn report(&self) -> LabelReport {
        LabelReport {
            counts: self.counts,
            window: measure(&self.window, self.classes),
            total: self.total.measured(|_| None),
        }
    }

    fn join(&mut self, class: u32, probabilities: Box<[f32]>) {
        let sample = Sample {
            class,
            probabilities,
        };
        self.counts.joined += 1;
        self.total.add(&sample);
        if self.window.len() == self.window_size {
            self.window.pop_front();
        }
        self.window.push_back(sample);
    }
}

/// Values by id, of which the oldest goes when there are too many.
#[derive(Debug)]
struct Fifo<V> {
    capacity: usize,
    entries: HashMap<Box<str>, V>,
    order: VecDeque<Box<str>>,
}

impl<V> Fifo<V> {
    fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            entries: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Adds a value under a new id; gives the one that had to go for it.
    fn push(&mut self, id: &str, value: V) -> Option<V> {
        self.entries.insert(id.into(), value);
        self.order.push_back(id.into());
        match self.order.len() > self.capacity {
            true => {
                let oldest = self.order.pop_front()?;
                self.entries.remove(&oldest)
            }
            false => None,
        }
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
        join.predicted("a", RIGHT);
        join.label("a", 0);
        join.label("b", 1);
        assert_eq!(join.report().counts.waiting, 1);
        join.predicted("b", RIGHT);
        // Again: a duplicate label, a second delivery, and both.
        join.label("a", 1);
        join.label("b", 0);
        join.predicted("a", RIGHT);
        join.label("a", 0);
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
            join.predicted(id, RIGHT);
        }
        for id in ["a", "b", "c"] {
            join.label(id, 0);
        }
        let counts = join.report().counts;
        assert_eq!(
            (counts.joined, counts.unlabelled, counts.waiting),
            (2, 1, 1)
        );
        join.label("x", 0);
        join.label("y", 0);
        let counts = join.report().counts;
        assert_eq!((counts.expired, counts.waiting), (1, 2));
    }

    #[test]
    fn the_window_slides_and_the_total_stays() {
        let mut join = join(100, 3);
        for number in 0..10 {
            let id = number.to_string();
            join.predicted(&id, RIGHT);
            join.label(&id, u32::from(number < 5));
        }
        let report = join.report();
        let window = report.window.unwrap();
        assert_eq!((window.labels, &window.shares[..]), (3, &[1.0, 0.0][..]));
        assert_eq!(window.by_predictor[3].accuracy, 1.0);
        let total = report.total.unwrap();
        assert_eq!((total.labels, total.by_predictor[3].accuracy), (10, 0.5));
    }

    #[test]
    fn memory_stays_bounded() {
        let mut join = join(5, 5);
        for number in 0..1000 {
            join.label(&number.to_string(), 0);
            join.predicted(&(number + 3).to_string(), RIGHT);
        }
        assert!(join.predictions.order.len() <= 5 && join.predictions.entries.len() <= 5);
        assert!(join.early.order.len() <= 5 && join.early.entries.len() <= 5);
    }
}
