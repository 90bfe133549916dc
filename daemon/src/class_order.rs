//! What to say of the order of a bundle's classes, in words.

use std::sync::Arc;

use ostar_bundle::Bundle;
use ostar_method::diagnostics::OrderCheck;
use tracing::{info, warn};

use crate::health::Health;

/// Names that are shown in an option that can be given as it is; more would fill the screen.
const MOST_GIVEN: usize = 50;

/// Says that another order fits the labels better, and what to do; `None` if none does.
pub(crate) fn wrong_order(check: &OrderCheck, classes: &[String]) -> Option<String> {
    let contradiction = check.contradiction(classes)?;
    let better = check.better_names(classes)?;
    let option = match better.len() {
        0..=MOST_GIVEN => format!("--classes {}", better.join(",")),
        _ => "--classes and the names in that order".to_owned(),
    };
    Some(format!(
        "{contradiction}; make the bundle again with {option}, or, if its order is right, check the labels: the model predicts \
         the opposite of them"
    ))
}

/// The same, or which classes' order the labels do not confirm, or that they confirm it.
pub(crate) fn describe_order(check: &OrderCheck, classes: &[String]) -> String {
    let problem = wrong_order(check, classes).or_else(|| check.not_checked(classes));
    problem.unwrap_or_else(|| "order of the classes: the labels confirm it".to_owned())
}

/// Says while the stream runs what labels show of the order. A model in the wrong order serves the opposite of what it
/// knows, and nothing else shows it.
pub(crate) struct ClassOrder {
    classes: Vec<String>,
    health: Arc<Health>,
}

impl ClassOrder {
    pub(crate) fn new(bundle: &Bundle, health: &Arc<Health>) -> Self {
        Self {
            classes: bundle.description().classes.clone(),
            health: Arc::clone(health),
        }
    }

    /// Labels were looked at.
    pub(crate) fn report(&self, check: &OrderCheck) {
        if let Some(problem) = wrong_order(check, &self.classes) {
            warn!(problem, "the order of the classes looks wrong");
            self.health.set_condition("class_order", problem);
            return;
        }
        self.health.clear("class_order");
        match check.not_checked(&self.classes) {
            Some(open) => info!(labels = check.rows, open, "the order of classes is open"),
            None => info!(
                labels = check.rows,
                "labels confirm the order of the classes"
            ),
        }
    }
}
