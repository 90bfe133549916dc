//! Initial parameters as in the paper; f_N starts as a copy of f_S.

use crate::{
    Architecture, Generator, HostTensor, NamedTensors,
    architecture::{Network, ParameterSpec, Role},
};

/// Standard deviation of normal weights, and gain of orthogonal ones.
const SPREAD: f64 = 0.02;

/// Fresh parameters: weights normal(0, 0.02), biases 0, the map's weights orthogonal with gain 0.02 (so that the
/// map starts near the identity), embeddings of unit length on average. f_N starts as a copy of f_S.
pub fn initial_parameters(architecture: &Architecture, generator: &mut Generator) -> NamedTensors {
    let mut tensors = NamedTensors::new();
    for spec in architecture.parameters() {
        let values = initial_values(&spec, generator);
        tensors.insert(spec.name, HostTensor::f32(spec.shape, values));
    }
    copy_source_classifier(&mut tensors);
    tensors
}

/// Replaces the parameters of f_N by those of f_S.
pub fn copy_source_classifier(tensors: &mut NamedTensors) {
    let from = format!("{}.", Network::SourceClassifier.prefix());
    let to = Network::TargetClassifier.prefix();
    let copies: Vec<(String, HostTensor)> = tensors
        .iter()
        .filter_map(|(name, tensor)| {
            let rest = name.strip_prefix(&from)?;
            Some((format!("{to}.{rest}"), tensor.clone()))
        })
        .collect();
    tensors.extend(copies);
}

fn initial_values(spec: &ParameterSpec, generator: &mut Generator) -> Vec<f32> {
    let mut normal = |deviation: f64| -> Vec<f32> {
        (0..spec.len())
            .map(|_| (generator.normal() * deviation) as f32)
            .collect()
    };
    match spec.role {
        Role::Weight if spec.network == Network::Map => {
            orthogonal(spec.shape[0], spec.shape[1], SPREAD, generator)
        }
        Role::Weight => normal(SPREAD),
        Role::Embedding => normal(1.0 / (spec.shape[1] as f64).sqrt()),
        Role::Bias | Role::RunningMean => vec![0.0; spec.len()],
        Role::Scale | Role::RunningVariance => vec![1.0; spec.len()],
    }
}

/// A matrix whose rows (or columns, when there are more rows) are orthogonal to each other and have length `gain`:
/// modified Gram-Schmidt on normal vectors, in double precision.
fn orthogonal(rows: usize, columns: usize, gain: f64, generator: &mut Generator) -> Vec<f32> {
    let (count, width) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut vector: Vec<f64> = (0..width).map(|_| generator.normal()).collect();
        for other in &basis {
            let along: f64 = vector.iter().zip(other).map(|(a, b)| a * b).sum();
            vector
                .iter_mut()
                .zip(other)
                .for_each(|(a, b)| *a -= along * b);
        }
        let length = vector.iter().map(|a| a * a).sum::<f64>().sqrt();
        // A vector in the span of the others leaves only rounding errors: draw another.
        if length > 1e-6 {
            vector.iter_mut().for_each(|a| *a /= length);
            basis.push(vector);
        }
    }
    let entry = |row: usize, column: usize| {
        let (vector, place) = if rows <= columns {
            (row, column)
        } else {
            (column, row)
        };
        (gain * basis[vector][place]) as f32
    };
    (0..rows * columns)
        .map(|i| entry(i / columns, i % columns))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orthogonal_weights_have_orthogonal_rows_with_the_length_of_the_gain() {
        let weights = orthogonal(6, 9, 0.5, &mut Generator::new(3));
        for a in 0..6 {
            for b in 0..6 {
                let dot: f32 = (0..9)
                    .map(|i| weights[a * 9 + i] * weights[b * 9 + i])
                    .sum();
                let expected = if a == b { 0.25 } else { 0.0 };
                assert!((dot - expected).abs() < 1e-6, "rows {a}, {b}: {dot}");
            }
        }
    }
}
