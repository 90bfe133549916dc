//! Compares estimators with cases that `worked/make_worked.py` computes by other methods.
#![allow(clippy::unwrap_used)]

use ostar_engine::Rows;
use ostar_method::proportions::{
    Confusion, EmLimits, LabelProportions, Probabilities, Temperature, maximum_likelihood,
    prior_correct,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    prior: LabelProportions,
    held_out: Vec<Vec<f64>>,
    labels: Vec<u32>,
    target: Vec<Vec<f64>>,
    proportions: LabelProportions,
    em: Vec<f64>,
    rho: f64,
    regularised: Vec<f64>,
    prior_corrected: Vec<Vec<f64>>,
    temperature: f64,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../../worked/cases.json")).unwrap()
}

fn probabilities(rows: &[Vec<f64>]) -> Probabilities {
    let values = rows.concat();
    Probabilities::new("rows", Rows::new(&values[..], rows[0].len()).unwrap()).unwrap()
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() < tolerance,
            "{found:?} instead of {expected:?}"
        );
    }
}

#[test]
fn em_finds_the_maximum_of_the_likelihood() {
    for case in cases() {
        let limits = EmLimits::default();
        let target = probabilities(&case.target);
        let estimate = maximum_likelihood(&target, &case.prior, limits).unwrap();
        assert_close(estimate.proportions.as_ref(), &case.em, 1e-5);
    }
}

#[test]
fn regularised_is_the_projected_ridge_solution() {
    for case in cases() {
        let held_out = probabilities(&case.held_out);
        let target = probabilities(&case.target);
        let confusion = Confusion::new(&held_out, &case.labels).unwrap();
        let rho = confusion.penalty(held_out.count() as f64, target.count() as f64);
        assert_close(&[rho], &[case.rho], 1e-15);
        let estimate = confusion.solve_regularised(&target.mean(), rho).unwrap();
        assert_close(estimate.as_ref(), &case.regularised, 1e-6);
    }
}

#[test]
fn prior_correction_reweights_and_normalises_each_row() {
    for case in cases() {
        let mut rows = case.target.concat();
        prior_correct(&mut rows, &case.prior, &case.proportions);
        assert_close(&rows, &case.prior_corrected.concat(), 1e-12);
    }
}

#[test]
fn the_temperature_has_the_least_negative_log_likelihood() {
    for case in cases() {
        let held_out = probabilities(&case.held_out);
        let temperature = Temperature::fit(&held_out, &case.labels, &case.prior).unwrap();
        assert_close(&[temperature.value()], &[case.temperature], 1e-6);
    }
}
