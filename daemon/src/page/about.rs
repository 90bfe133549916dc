//! What the page shows that does not change while the daemon runs.

use serde::Serialize;

use super::columns;
use crate::{clock::now_ms, serving::Services};

/// Most classes that the page shows: more make the charts unreadable and the history large.
const MOST_CLASSES: usize = 40;

/// The model, the topic and the configuration in effect.
#[derive(Debug, Clone, Serialize)]
pub(super) struct About {
    model: String,
    program_version: &'static str,
    started_ms: u64,
    topic: String,
    /// Classes with metrics of their own, in the bundle's order.
    pub(super) classes: Vec<Class>,
    classes_in_all: usize,
    /// Events carry probabilities or logits: there are no latents, no map and no alignment.
    black_box: bool,
    steps_per_block: usize,
    /// The guard's limit for `movement_ratio` of a class.
    movement_limit: f64,
    labels: bool,
    dead_letters: bool,
    /// Whether the page shows buttons for orders.
    orders: bool,
    /// Names of the history's columns, in their order.
    columns: Vec<String>,
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
        let chosen = services.metrics.classes.chosen().iter();
        let mut numbers: Vec<usize> = chosen.copied().take(MOST_CLASSES).collect();
        numbers.sort_unstable();
        let class = |number: usize| Class {
            number,
            name: description.classes[number].clone(),
            training: training[number],
        };
        let columns = columns::Column::all(numbers.len());
        Self {
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
            columns: columns.iter().map(|column| column.name()).collect(),
            configuration: config.in_effect(),
        }
    }
}
