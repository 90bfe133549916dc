//! Estimates the label proportions of windows of posteriors with every estimator, for `scripts/compare_quapy.py`.
//!
//! Reads safetensors with `held_out` [n, K], `labels` [n] (int64), `prior` [K] and `windows` [w, m, K], and
//! prints one JSON object: for each estimator, a list of the windows' proportions.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use ostar_engine::{NamedTensors, Rows, tensors::from_safetensors};
use ostar_method::proportions::{Estimator, LabelProportions, Probabilities, ProportionEstimator};

/// Estimates label proportions from posteriors in a file.
#[derive(Parser)]
struct Arguments {
    /// File with the posteriors, in safetensors.
    posteriors: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let bytes = std::fs::read(&arguments.posteriors)
        .with_context(|| format!("cannot read {}", arguments.posteriors.display()))?;
    let tensors = from_safetensors(&bytes)?;
    let prior = values(&tensors, "prior")?;
    let classes = prior.len();
    let held_out = values(&tensors, "held_out")?;
    let labels: Vec<u32> = values(&tensors, "labels")?
        .iter()
        .map(|label| *label as u32)
        .collect();
    let windows = values(&tensors, "windows")?;
    let window_values = windows.len() / tensors["windows"].shape[0].max(1);

    let mut estimates = BTreeMap::new();
    for (name, estimator) in [
        ("confusion", Estimator::Confusion),
        ("em", Estimator::Em),
        ("regularised", Estimator::Regularised),
        ("two_step", Estimator::TwoStep),
    ] {
        let rows = Probabilities::new("held_out", Rows::new(&held_out[..], classes)?)?;
        let prior = LabelProportions::new(prior.clone())?;
        let estimator = ProportionEstimator::new(estimator, rows, labels.clone(), prior)?;
        let mut proportions = Vec::new();
        for window in windows.chunks_exact(window_values) {
            let window = Probabilities::new("windows", Rows::new(window, classes)?)?;
            proportions.push(estimator.estimate(&window)?.proportions);
        }
        estimates.insert(name, proportions);
    }
    serde_json::to_writer(std::io::stdout().lock(), &estimates)?;
    Ok(())
}

fn values(tensors: &NamedTensors, name: &str) -> Result<Vec<f64>> {
    let tensor = tensors
        .get(name)
        .with_context(|| format!("tensor `{name}` is missing"))?;
    Ok(tensor.to_f64())
}
