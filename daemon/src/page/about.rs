//! What does not change while the daemon runs.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::columns;
use crate::serving::Services;

/// Most classes that are shown and kept: with more, a chart is a thicket and the history large.
const MOST_CLASSES: usize = 40;

/// The model, where its events come from, and the configuration in effect.
#[derive(Debug, Clone, Serialize)]
pub(super) struct About {
    model: String,
    program_version: &'static str,
    started_ms: u64,
    topic: String,
    /// The most common ones in training, in the model's order.
    pub(super) classes: Vec<Class>,
    classes_in_all: usize,
    /// Whether events carry probabilities: then there are no latents, no map and no alignment.
    black_box: bool,
    steps_per_block: usize,
    /// A class that is moved farther than this share of its room is refused by the guard.
    movement_limit: f64,
    /// Label shift alone is refuted by a distance above this many times the noise.
    refuted_at: f64,
    labels: bool,
    dead_letters: bool,
    /// Whether orders are taken.
    orders: bool,
    /// Names of the history's columns.
    columns: Vec<String>,
    configuration: String,
}

/// One that is shown.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Class {
    /// Its place in the model's order.
    pub(super) number: usize,
    pub(super) name: String,
    training: f64,
}

impl About {
    pub(super) fn new(services: &Services) -> Self {
        let (description, config) = (&services.description, &services.config);
        let training = &description.training_proportions;
        let mut numbers: Vec<usize> = (0..services.classes()).collect();
        numbers.sort_by(|left, right| training[*right].total_cmp(&training[*left]));
        numbers.truncate(MOST_CLASSES);
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
            black_box: description.input.kind().is_black_box(),
            steps_per_block: config.learner.steps_per_block,
            movement_limit: config.learner.method.guard.movement_ratio,
            refuted_at: config.learner.method.guard.refuted_at,
            labels: config.labels.topic.is_some(),
            dead_letters: config.dead_letters.topic.is_some(),
            orders: config.http.orders,
            columns: columns.iter().map(|column| column.name()).collect(),
            configuration: config.in_effect(),
        }
    }
}

/// Milliseconds since 1970; a clock before that is at its beginning.
pub(super) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}
