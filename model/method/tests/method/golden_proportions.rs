//! Compares the `confusion` estimator with exact solutions of an independent implementation.

use std::path::PathBuf;

use ostar_engine::tensors::from_safetensors;
use ostar_method::proportions::Confusion;

fn golden_folder() -> PathBuf {
    match std::env::var_os("OSTAR_GOLDEN") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../golden"),
    }
}

#[test]
fn golden_proportions_match_the_exact_solutions() {
    let file = golden_folder().join("proportions.safetensors");
    let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let tensors = from_safetensors(&bytes).unwrap();
    let classes = tensors["c"].shape[1];
    let [matrices, marginals, solutions] = ["c", "q", "p"].map(|name| tensors[name].to_f64());
    let objectives = tensors["objective"].to_f64();
    let mut worst: f64 = 0.0;
    for (case, (matrix, (marginal, solution))) in matrices
        .chunks(classes * classes)
        .zip(marginals.chunks(classes).zip(solutions.chunks(classes)))
        .enumerate()
    {
        let confusion = Confusion::from_rows(matrix, classes).unwrap();
        let estimate = confusion.solve(marginal).unwrap();
        let distance = estimate
            .as_ref()
            .iter()
            .zip(solution)
            .map(|(a, b)| (a - b).abs());
        worst = distance.fold(worst, f64::max);
        let objective = objective(&confusion, estimate.as_ref(), marginal);
        assert!(
            objective <= objectives[case] + 1e-12,
            "case {case}: not the minimum"
        );
    }
    println!("{} cases, largest difference {worst:.1e}", objectives.len());
    assert!(worst < 1e-6, "largest difference {worst}");
}

fn objective(confusion: &Confusion, proportions: &[f64], marginal: &[f64]) -> f64 {
    let weights = proportions
        .iter()
        .zip(confusion.proportions())
        .map(|(p, share)| p / share);
    let weights: Vec<f64> = weights.collect();
    let rows = confusion.to_rows();
    let residual = rows.chunks(weights.len()).zip(marginal).map(|(row, q)| {
        let predicted: f64 = row.iter().zip(&weights).map(|(c, w)| c * w).sum();
        predicted - q
    });
    0.5 * residual.map(|r| r * r).sum::<f64>()
}
