//! What the page shows that does not change while the daemon runs.

use serde::Serialize;

use super::history::series;
use crate::{clock::now_ms, proto::State, serving::Services, state::describe};

/// Most classes that the page shows: more make the charts unreadable and the history large.
const MOST_CLASSES: usize = 40;

/// The model, the topic and the configuration in effect.
#[derive(Debug, Clone, Serialize)]
pub(super) struct About {
    model: String,
    program_version: &'static str,
    pub(super) started_ms: u64,
    pub(super) topic: String,
    /// Classes with metrics of their own, in the bundle's order.
    pub(super) classes: Vec<Class>,
    pub(super) classes_in_all: usize,
    /// Events carry probabilities or logits: there are no latents, no map and no alignment.
    pub(super) black_box: bool,
    steps_per_block: usize,
    /// The guard's limit for `movement_ratio` of a class.
    pub(super) movement_limit: f64,
    pub(super) labels: bool,
    dead_letters: bool,
    /// Whether the page shows buttons for orders.
    orders: bool,
    /// Names of the history's columns, in their order.
    pub(super) columns: Vec<String>,
    /// As `ostard config print` writes it, without secrets.
    configuration: String,
}

/// A class that the page shows.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Class {
    /// Index in the bundle's order.
    pub(super) number: usize,
    pub(super) name: String,
    /// Proportion in training.
    training: f64,
}

impl About {
    pub(super) fn new(services: &Services) -> Self {
        let (description, config) = (&services.description, &services.config);
        let training = &description.training_proportions;
        let chosen = services.metrics.classes.chosen.iter();
        let mut numbers: Vec<usize> = chosen.copied().take(MOST_CLASSES).collect();
        numbers.sort_unstable();
        let class = |number: usize| Class {
            number,
            name: description.classes[number].clone(),
            training: training[number],
        };
        let mut about = Self {
            model: description.name.clone(),
            program_version: env!("CARGO_PKG_VERSION"),
            started_ms: now_ms(),
            topic: config.kafka.topic.clone(),
            classes: numbers.into_iter().map(class).collect(),
            classes_in_all: services.classes(),
            black_box: description.is_black_box(),
            steps_per_block: config.learner.steps_per_block,
            movement_limit: config.learner.method.guard.movement_ratio,
            labels: config.labels.topic.is_some(),
            dead_letters: config.dead_letters.topic.is_some(),
            orders: config.http.orders,
            columns: Vec::new(),
            configuration: config.in_effect(),
        };
        let mut state = describe(services, &services.status.borrow(), false);
        about.choose_classes(&mut state);
        let columns = series(&state, None).into_iter();
        about.columns = columns.map(|(name, _)| name).collect();
        about
    }

    /// Leaves out the classes that the page does not show.
    pub(super) fn choose_classes(&self, state: &mut State) {
        state.classes = self.chosen(&state.classes);
        if let Some(shares) = &mut state.shares_by_labels {
            shares.classes = self.chosen(&shares.classes);
        }
        for candidate in &mut state.candidates {
            candidate.calibration_ratios.clear();
        }
    }

    fn chosen<T: Clone>(&self, of_classes: &[T]) -> Vec<T> {
        let chosen = self.classes.iter();
        let chosen = chosen.filter_map(|class| of_classes.get(class.number));
        chosen.cloned().collect()
    }
}
