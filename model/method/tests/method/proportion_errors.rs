//! The default estimator has the small variance of maximum likelihood when the classifier is calibrated, and the small
//! bias of the confusion matrix when it is not.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use ostar_engine::Generator;
use ostar_method::proportions::{Estimator, LabelProportions, ProportionEstimator};

use crate::gaussians::Gaussians;

const DRAWS: usize = 200;

/// Mean absolute error of a proportion by the default, `Em` and `Confusion`, for a classifier that was trained with a
/// uniform prior but is described with `stated_prior`.
fn errors(stated_prior: &[f64], held_out_rows: usize) -> [f64; 3] {
    let problem = Gaussians {
        prior: LabelProportions::uniform(2),
        separation: 2.0,
        sharpness: 1.0,
    };
    let stated_prior = LabelProportions::new(stated_prior.to_vec()).unwrap();
    let mut generator = Generator::new(8);
    let mut errors = [0.0; 3];
    for _ in 0..DRAWS {
        let proportion = generator.uniform();
        let truth = LabelProportions::new(vec![proportion, 1.0 - proportion]).unwrap();
        let (held_out, labels) = problem.draw_held_out(held_out_rows, &mut generator);
        let window = problem.draw(1000, &truth, &mut generator).0;
        let kinds = [Estimator::default(), Estimator::Em, Estimator::Confusion];
        for (error, kind) in errors.iter_mut().zip(kinds) {
            let (held_out, labels) = (held_out.clone(), labels.clone());
            let estimator =
                ProportionEstimator::new(kind, held_out, labels, stated_prior.clone()).unwrap();
            let estimate = estimator.estimate(&window).unwrap();
            *error += (estimate.proportions[0] - proportion).abs() / DRAWS as f64;
        }
    }
    println!("stated prior {stated_prior:?}: default, em, confusion {errors:.4?}");
    errors
}

#[test]
fn a_calibrated_classifier_is_trusted() {
    let [default, em, confusion] = errors(&[0.5, 0.5], 500);
    assert!(default < 1.05 * em, "{default} and {em}");
    assert!(default < 0.85 * confusion, "{default} and {confusion}");
}

#[test]
fn a_classifier_with_another_prior_than_stated_is_not() {
    let [default, em, confusion] = errors(&[0.75, 0.25], 2000);
    assert!(default < 0.5 * em, "{default} and {em}");
    assert!(default < 1.1 * confusion, "{default} and {confusion}");
}
