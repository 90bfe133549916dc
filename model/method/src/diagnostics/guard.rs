//! The guard: may this state be served. A pure function from evidence to a decision with its reason.

use ostar_engine::{Error, checks};
use serde::{Deserialize, Serialize};

use super::{Decision, Displacement, Reason};

/// Below this share of rows the prior-corrected model does not see one class alone.
const NOT_NEARLY_ALL: f64 = 0.9;

/// What the guard looks at, all of it in evaluation mode.
#[derive(Debug, Clone, PartialEq)]
pub struct GuardEvidence<'a> {
    /// The first parameter or loss found to be NaN or infinite.
    pub non_finite: Option<&'a str>,
    /// Sliced distance of target and source, reweighted by the frozen classifier's estimate and not moved.
    pub distance_before_map: f64,
    /// The same after the map, on the same held-out rows; `None` before the first step.
    pub distance_after_map: Option<f64>,
    /// What sampling alone makes of a distance.
    pub noise_floor: f64,
    /// Whether the gate says that label shift does not explain the target: then classes must have moved.
    pub label_shift_refuted: bool,
    /// The class that f_N predicts most often on the window.
    pub most_predicted: MostPredicted,
    /// Whether clusters of the target, found without a classifier, belong to the classes they are taken for.
    pub own_clusters: bool,
    /// How far each class is moved.
    pub classes: &'a [Option<Displacement>],
    /// Cross-entropy of the target classifier (f_N) on mapped held-out source rows.
    pub adapted_cross_entropy: f64,
    /// Cross-entropy of the frozen classifier (f_S) on the same rows, not mapped, weighted alike.
    pub frozen_cross_entropy: f64,
    /// Smallest singular value of the confusion matrix C of the target classifier on mapped held-out source rows.
    pub smallest_singular_value: f64,
}

/// How often the class that one classifier predicts most is predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MostPredicted {
    /// The class, counted from 0.
    pub class: usize,
    /// Share of rows for which f_N predicts it.
    pub adapted: f64,
    /// Share of rows for which the prior-corrected f_S predicts it.
    pub prior: f64,
}

/// Limits beyond which a learned state is refused.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GuardLimits {
    /// Largest mean ||phi(z) - z||^2 of a class, as a share of the squared distance between its mean and
    /// the nearest other: at a quarter its rows move, in root mean square, as far as half way to it. Where
    /// label shift alone cannot explain the target, classes must have moved: then only movement apart
    /// from the class's mean counts, which is what carries a part of a class into another.
    pub movement_ratio: f64,
    /// Whether held-out rows must be nearer to the stream after the map than before.
    pub map_must_help: bool,
    /// Largest share of the window that may be predicted as one class, unless the prior-corrected frozen model
    /// predicts that class nearly as often. Above 1 allows all.
    pub one_class: f64,
    /// By how much the adapted cross-entropy may exceed the frozen one.
    pub cross_entropy_margin: f64,
    /// Least singular value of C. Low, because rare classes alone make it small: it is at most the
    /// smallest class share.
    pub smallest_singular_value: f64,
    /// After so many refusals in a row the last good weights are restored.
    pub refusals_before_restore: u32,
}

/// Whether a state may be served; the first reason against it, in the order of [`GuardEvidence`].
pub fn judge(evidence: &GuardEvidence<'_>, limits: &GuardLimits) -> Decision {
    let reason = non_finite(evidence)
        .or_else(|| one_class(evidence, limits))
        .or_else(|| map_does_not_help(evidence, limits))
        .or_else(|| class_movement(evidence, limits))
        .or_else(|| held_out_loss(evidence, limits))
        .or_else(|| ill_conditioned(evidence, limits));
    match reason {
        None => Decision::Serve,
        Some(reason) => Decision::Refuse(reason),
    }
}

fn non_finite(evidence: &GuardEvidence<'_>) -> Option<Reason> {
    let scalars = [
        ("distance before the map", evidence.distance_before_map),
        ("noise floor", evidence.noise_floor),
        ("adapted cross-entropy", evidence.adapted_cross_entropy),
        ("frozen cross-entropy", evidence.frozen_cross_entropy),
        ("smallest singular value", evidence.smallest_singular_value),
    ];
    let costs = evidence.classes.iter().flatten();
    let separations = costs.clone().filter_map(|class| class.separation);
    let moves = costs
        .map(|class| ("movement of a class", class.cost))
        .chain(separations.map(|separation| ("separation of a class", separation)));
    let first = scalars
        .into_iter()
        .chain(moves)
        .find(|(_, value)| !value.is_finite());
    let name = evidence.non_finite.or(first.map(|(name, _)| name))?;
    Some(Reason::NonFinite { name: name.into() })
}

/// Of the classes moved too far, the one moved farthest for the room it has.
fn class_movement(evidence: &GuardEvidence<'_>, limits: &GuardLimits) -> Option<Reason> {
    let limit = limits.movement_ratio;
    // Classes that had to move may do so as wholes, as long as none takes another's place.
    let as_wholes = evidence.label_shift_refuted && evidence.own_clusters;
    let classes = evidence.classes.iter().enumerate();
    let too_far = classes.filter_map(|(class, moved)| {
        let moved = (*moved)?;
        let separation = moved.separation?;
        let cost = if as_wholes {
            moved.deformation
        } else {
            moved.cost
        };
        (cost > limit * separation).then_some((class, cost, separation))
    });
    let (class, cost, separation) = too_far.max_by(|a, b| (a.1 * b.2).total_cmp(&(b.1 * a.2)))?;
    let (distance_before_map, noise_floor) = (evidence.distance_before_map, evidence.noise_floor);
    Some(if as_wholes {
        Reason::ClassDeformation {
            class,
            deformation: cost,
            separation,
            limit,
        }
    } else {
        Reason::ClassMovement {
            class,
            cost,
            separation,
            limit,
            distance_before_map,
            noise_floor,
        }
    })
}

/// Refuses a state whose p_N ran away: the adapted model predicts one class for nearly all rows, and the
/// prior-corrected model does not.
fn one_class(evidence: &GuardEvidence<'_>, limits: &GuardLimits) -> Option<Reason> {
    let MostPredicted {
        class,
        adapted,
        prior,
    } = evidence.most_predicted;
    (adapted > limits.one_class && prior < NOT_NEARLY_ALL).then_some(Reason::OneClass {
        class,
        adapted,
        prior,
    })
}

/// Refuses a map that does not bring held-out rows nearer to the stream.
fn map_does_not_help(evidence: &GuardEvidence<'_>, limits: &GuardLimits) -> Option<Reason> {
    let (before, after) = (evidence.distance_before_map, evidence.distance_after_map?);
    (limits.map_must_help && after >= before).then_some(Reason::MapDoesNotHelp { before, after })
}

fn held_out_loss(evidence: &GuardEvidence<'_>, limits: &GuardLimits) -> Option<Reason> {
    let (adapted, frozen) = (
        evidence.adapted_cross_entropy,
        evidence.frozen_cross_entropy,
    );
    let margin = limits.cross_entropy_margin;
    (adapted > frozen + margin).then_some(Reason::HeldOutLoss {
        adapted,
        frozen,
        margin,
    })
}

fn ill_conditioned(evidence: &GuardEvidence<'_>, limits: &GuardLimits) -> Option<Reason> {
    let smallest = evidence.smallest_singular_value;
    let limit = limits.smallest_singular_value;
    (smallest < limit).then_some(Reason::IllConditioned { smallest, limit })
}

// === impl GuardLimits ===

impl Default for GuardLimits {
    fn default() -> Self {
        Self {
            movement_ratio: 0.25,
            map_must_help: true,
            one_class: 0.98,
            cross_entropy_margin: 0.1,
            smallest_singular_value: 1e-6,
            refusals_before_restore: 3,
        }
    }
}

impl GuardLimits {
    /// All limits that cannot work.
    pub(crate) fn problems(&self) -> Vec<Error> {
        checks::problems([
            checks::weight("guard.movement_ratio", self.movement_ratio),
            checks::weight("guard.one_class", self.one_class),
            checks::weight("guard.cross_entropy_margin", self.cross_entropy_margin),
            checks::weight(
                "guard.smallest_singular_value",
                self.smallest_singular_value,
            ),
            checks::not_zero(
                "guard.refusals_before_restore",
                self.refusals_before_restore as usize,
            ),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn displacement(cost: f64, separation: f64) -> Option<Displacement> {
        Some(Displacement {
            cost,
            deformation: cost,
            separation: Some(separation),
            ratio: Some(cost / separation),
        })
    }

    fn healthy(classes: &[Option<Displacement>]) -> GuardEvidence<'_> {
        GuardEvidence {
            non_finite: None,
            distance_before_map: 0.1,
            distance_after_map: Some(0.05),
            noise_floor: 0.06,
            label_shift_refuted: false,
            most_predicted: MostPredicted {
                class: 1,
                adapted: 0.6,
                prior: 0.5,
            },
            own_clusters: true,
            classes,
            adapted_cross_entropy: 0.35,
            frozen_cross_entropy: 0.3,
            smallest_singular_value: 0.2,
        }
    }

    /// The label and the sentence of a refusal.
    fn refusal(evidence: &GuardEvidence<'_>) -> (&'static str, String) {
        match judge(evidence, &GuardLimits::default()) {
            Decision::Refuse(reason) => (reason.label(), reason.to_string()),
            Decision::Serve => panic!("served {evidence:?}"),
        }
    }

    #[test]
    fn a_healthy_state_is_served_up_to_the_limits() {
        let classes = [displacement(1.0, 4.0), None, displacement(0.0, 0.0)];
        let mut evidence = healthy(&classes);
        evidence.adapted_cross_entropy = 0.4;
        evidence.smallest_singular_value = 1e-6;
        assert_eq!(judge(&evidence, &GuardLimits::default()), Decision::Serve);
    }

    #[test]
    fn values_that_are_not_finite_are_refused_by_name() {
        let mut evidence = healthy(&[]);
        evidence.non_finite = Some("phi.blocks.0.fc1.weight");
        let expected = "phi.blocks.0.fc1.weight is not finite".to_owned();
        assert_eq!(refusal(&evidence), ("non_finite", expected));

        let mut evidence = healthy(&[]);
        evidence.adapted_cross_entropy = f64::NAN;
        assert_eq!(refusal(&evidence).1, "adapted cross-entropy is not finite");
        let mut evidence = healthy(&[]);
        evidence.smallest_singular_value = f64::NAN;
        assert_eq!(
            refusal(&evidence).1,
            "smallest singular value is not finite"
        );
        let classes = [displacement(f64::INFINITY, 1.0)];
        assert_eq!(
            refusal(&healthy(&classes)).1,
            "movement of a class is not finite"
        );
    }

    #[test]
    fn the_class_that_moved_farthest_for_its_room_is_the_reason() {
        let classes = [None, displacement(1.1, 4.0), displacement(2.0, 5.0)];
        let (label, sentence) = refusal(&healthy(&classes));
        assert_eq!(label, "class_movement");
        assert_eq!(
            sentence,
            "class 2 is moved by 2.0000 (mean squared), more than 0.25 of the squared distance \
             5.0000 between its mean and the nearest other, while label shift alone leaves a distance of \
             0.1000 with a floor of 0.0600"
        );
    }

    #[test]
    fn classes_that_had_to_move_may_do_so_as_wholes() {
        let whole = [displacement(6.0, 4.0).map(|moved| Displacement {
            deformation: 0.9,
            ..moved
        })];
        let mut evidence = healthy(&whole);
        assert_eq!(refusal(&evidence).0, "class_movement");
        evidence.label_shift_refuted = true;
        assert_eq!(judge(&evidence, &GuardLimits::default()), Decision::Serve);
        evidence.own_clusters = false;
        assert_eq!(refusal(&evidence).0, "class_movement");
        let torn = [displacement(6.0, 4.0)];
        let mut evidence = healthy(&torn);
        evidence.label_shift_refuted = true;
        let (label, sentence) = refusal(&evidence);
        assert_eq!(label, "class_deformation");
        assert_eq!(
            sentence,
            "class 0 is deformed by 6.0000 (mean squared movement apart from its mean's), more than \
             0.25 of the squared distance 4.0000 between its mean and the nearest other"
        );
    }

    #[test]
    fn a_map_that_brings_nothing_nearer_is_refused() {
        let mut evidence = healthy(&[]);
        evidence.distance_after_map = Some(0.12);
        let expected = "the map does not help: held-out rows are 0.1200 from the stream after it and \
                        0.1000 before";
        assert_eq!(
            refusal(&evidence),
            ("map_does_not_help", expected.to_owned())
        );
        // Before the first step there is no map to judge.
        evidence.distance_after_map = None;
        assert_eq!(judge(&evidence, &GuardLimits::default()), Decision::Serve);
    }

    #[test]
    fn a_state_that_sees_one_class_where_the_frozen_model_does_not_is_refused() {
        let mut evidence = healthy(&[]);
        evidence.most_predicted = MostPredicted {
            class: 1,
            adapted: 0.998,
            prior: 0.06,
        };
        assert_eq!(refusal(&evidence).0, "one_class");
        // A stream of one class looks so to both.
        evidence.most_predicted.prior = 0.97;
        assert_eq!(judge(&evidence, &GuardLimits::default()), Decision::Serve);
    }

    #[test]
    fn any_movement_of_classes_in_the_same_place_is_too_much() {
        let classes = [displacement(0.1, 0.0)];
        assert_eq!(refusal(&healthy(&classes)).0, "class_movement");
    }

    #[test]
    fn a_held_out_loss_above_the_frozen_ones_margin_is_refused() {
        let mut evidence = healthy(&[]);
        evidence.adapted_cross_entropy = 0.45;
        let expected = "held-out cross-entropy on mapped source samples is 0.4500, more than 0.1 \
                        above the frozen classifier's 0.3000";
        assert_eq!(refusal(&evidence), ("held_out_loss", expected.to_owned()));
    }

    #[test]
    fn a_singular_confusion_matrix_is_refused() {
        let mut evidence = healthy(&[]);
        evidence.smallest_singular_value = 2e-8;
        let expected = "the confusion matrix is ill conditioned: its smallest singular value is \
                        2.00e-8, expected at least 1.00e-6";
        assert_eq!(refusal(&evidence), ("ill_conditioned", expected.to_owned()));
    }

    #[test]
    fn settings_have_defaults_and_wrong_ones_are_named() {
        let limits: GuardLimits = serde_json::from_str(r#"{"movement_ratio": 0.5}"#).unwrap();
        let expected = GuardLimits {
            movement_ratio: 0.5,
            ..GuardLimits::default()
        };
        assert_eq!(limits, expected);
        assert!(limits.problems().is_empty());
        assert!(serde_json::from_str::<GuardLimits>(r#"{"ratio": 1}"#).is_err());
        let message = |change: fn(&mut GuardLimits)| {
            let mut limits = GuardLimits::default();
            change(&mut limits);
            limits.problems().remove(0).to_string()
        };
        assert!(message(|l| l.movement_ratio = -1.0).starts_with("guard.movement_ratio"));
        assert!(message(|l| l.cross_entropy_margin = f64::NAN).contains("cross_entropy_margin"));
        assert!(message(|l| l.smallest_singular_value = -1.0).contains("singular_value"));
        assert!(message(|l| l.refusals_before_restore = 0).contains("is 0"));
    }
}
