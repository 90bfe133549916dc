//! Metrics of the alignment steps: what they minimise.

use ostar_method::learner::StepReport;

use super::families::{Families, Measured};

/// Scalars of the last alignment step.
#[derive(Debug)]
pub(super) struct Losses {
    critic: Measured,
    distance: Measured,
    penalty: Measured,
    transport_cost: Measured,
    classifier: Measured,
}

impl Losses {
    pub(super) fn new(families: &Families<'_>) -> Self {
        let measured = |name, help| families.measured(name, help, &[]);
        Self {
            critic: measured("ostar_critic_loss", "Loss of the last critic step."),
            distance: measured(
                "ostar_critic_distance",
                "The critic's estimate of the distance between mapped source and stream.",
            ),
            penalty: measured(
                "ostar_gradient_penalty",
                "Gradient penalty of the last critic step.",
            ),
            transport_cost: measured(
                "ostar_transport_cost",
                "Transport cost of the last map step.",
            ),
            classifier: measured(
                "ostar_classifier_loss",
                "Loss of the last step of the adapted model.",
            ),
        }
    }

    pub(super) fn observe(&self, step: &StepReport) {
        self.critic.set(&[], step.critic.loss);
        self.distance.set(&[], step.critic.distance);
        self.penalty.set(&[], step.critic.penalty);
        self.transport_cost.set(&[], step.map.transport_cost);
        self.classifier.set(&[], step.classifier.loss);
    }
}
