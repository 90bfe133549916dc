//! Mean and deviation of latents, and how a network is made to see standardised ones.

use serde::{Deserialize, Serialize};

use crate::{
    Error, NamedTensors, Result, Rows, checks, moments::Moments, parameters::finite,
    tensors::Values,
};

/// z' = (z - mean) / deviation, feature by feature: the transport cost's weight, the critic and the rates
/// all assume unit scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standardisation {
    /// Mean of each feature, which becomes 0.
    pub mean: Vec<f64>,
    /// Standard deviation of each feature, above 0.
    pub deviation: Vec<f64>,
}

impl Standardisation {
    /// Leaves `width` features as they are.
    pub fn identity(width: usize) -> Self {
        Self {
            mean: vec![0.0; width],
            deviation: vec![1.0; width],
        }
    }

    /// That of `rows`. A constant feature has no scale of its own and is only shifted.
    pub fn of(rows: Rows<'_>) -> Result<Self> {
        let width = rows.width();
        rows.check("rows", width)?;
        if rows.count() == 0 {
            return Err(Error::shape("rows", "at least one row", 0));
        }
        let values = rows.values();
        let mut features = vec![Moments::default(); width];
        for index in 0..values.len() {
            features[index % width].add(values.get(index));
        }
        Ok(Self {
            mean: features.iter().map(|feature| feature.mean).collect(),
            deviation: features.iter().map(Moments::deviation).collect(),
        })
    }

    /// Refuses another width than `width`, what is not finite and deviations that are not above 0.
    pub fn check(&self, width: usize) -> Result<()> {
        checks::length("standardisation.mean", self.mean.len(), width)?;
        checks::length("standardisation.deviation", self.deviation.len(), width)?;
        let usable = |value: f64| (value as f32).is_finite();
        let (mean, deviation) = ("standardisation.mean", "standardisation.deviation");
        checks::each(mean, "feature", &self.mean, usable, "a finite number")?;
        let positive = |value| usable(value) && value >= Moments::SMALLEST_DEVIATION;
        checks::each(
            deviation,
            "feature",
            &self.deviation,
            positive,
            "a finite number above 0",
        )
    }

    /// Standardised `rows`, row after row.
    pub fn apply(&self, rows: Rows<'_>) -> Result<Vec<f32>> {
        rows.check("rows", self.mean.len())?;
        let values = rows.values();
        let features = self.mean.iter().zip(&self.deviation).cycle();
        Ok((0..values.len())
            .zip(features)
            .map(|(index, (mean, deviation))| ((values.get(index) - mean) / deviation) as f32)
            .collect())
    }

    /// The way back: z = mean + deviation z' as a standardisation of z'.
    pub fn inverse(&self) -> Self {
        let features = self.mean.iter().zip(&self.deviation);
        Self {
            mean: features
                .map(|(mean, deviation)| -mean / deviation)
                .collect(),
            deviation: self.deviation.iter().map(|value| 1.0 / value).collect(),
        }
    }
}

/// Makes the classifier whose parameters start with `prefix` take standardised latents: with
/// z = mean + deviation z', f'(z') = f(z). Exact, in its first linear layer: W' = W diag(deviation),
/// b' = b + W mean.
pub fn standardise_classifier(
    tensors: &mut NamedTensors,
    prefix: &str,
    mean: &[f64],
    deviation: &[f64],
) -> Result<()> {
    let standardisation = Standardisation {
        mean: mean.to_vec(),
        deviation: deviation.to_vec(),
    };
    standardisation.check(mean.len())?;
    fold_affine(tensors, &format!("{prefix}.fc1"), &standardisation)
}

/// Makes a linear layer of x one of x', with x = mean + deviation x'.
pub fn fold_affine(
    tensors: &mut NamedTensors,
    layer: &str,
    standardisation: &Standardisation,
) -> Result<()> {
    let Standardisation { mean, deviation } = standardisation;
    let (weight_name, bias_name) = (format!("{layer}.weight"), format!("{layer}.bias"));
    let outputs = tensors
        .get(&bias_name)
        .map_or(0, |bias| bias.values.as_scalars().len());
    let mut bias = finite(tensors, &bias_name, &[outputs])?.to_f64();
    let mut weight = finite(tensors, &weight_name, &[outputs, mean.len()])?.to_f64();
    for (bias, row) in bias.iter_mut().zip(weight.chunks_exact_mut(mean.len())) {
        *bias += row.iter().zip(mean).map(|(w, m)| w * m).sum::<f64>();
        row.iter_mut().zip(deviation).for_each(|(w, d)| *w *= d);
    }
    for (name, values) in [(weight_name, weight), (bias_name, bias)] {
        let tensor = tensors.get_mut(&name).expect("was read above");
        tensor.values = match tensor.values {
            Values::F32(_) => Values::F32(values.iter().map(|value| *value as f32).collect()),
            Values::F64(_) => Values::F64(values),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostTensor;

    #[test]
    fn a_constant_feature_is_shifted_and_not_divided_by_nothing() {
        let values = [3.0f32, 0.1, -1.0, 0.1, 1.0, 0.1];
        let rows = Rows::new(&values[..], 2).unwrap();
        let standardisation = Standardisation::of(rows).unwrap();
        assert_eq!(standardisation.deviation[1], 1.0);
        let applied = standardisation.apply(rows).unwrap();
        let square = applied[0].powi(2) + applied[2].powi(2) + applied[4].powi(2);
        assert!((square - 3.0).abs() < 1e-6, "{applied:?}");
        assert!(applied.iter().skip(1).step_by(2).all(|v| v.abs() < 1e-6));
    }

    #[test]
    fn a_deviation_of_zero_is_refused_by_feature() {
        let standardisation = Standardisation {
            mean: vec![0.0; 2],
            deviation: vec![1.0, 0.0],
        };
        assert_eq!(
            standardisation.check(2).unwrap_err().to_string(),
            "standardisation.deviation: of feature 1 is 0, expected a finite number above 0"
        );
        assert!(standardisation.check(3).is_err());
    }

    #[test]
    fn folding_forth_and_back_gives_the_layer_again() {
        let standardisation = Standardisation {
            mean: vec![3.0, -1.0],
            deviation: vec![0.5, 4.0],
        };
        let mut tensors = NamedTensors::new();
        let weight = HostTensor::f64([1, 2], vec![2.0, -3.0]);
        tensors.insert("f_s.fc1.weight".into(), weight);
        tensors.insert("f_s.fc1.bias".into(), HostTensor::f64([1], vec![0.5]));
        let before = tensors.clone();
        fold_affine(&mut tensors, "f_s.fc1", &standardisation).unwrap();
        assert_eq!(tensors["f_s.fc1.weight"].to_f64(), [1.0, -12.0]);
        assert_eq!(tensors["f_s.fc1.bias"].to_f64(), [0.5 + 6.0 + 3.0]);
        fold_affine(&mut tensors, "f_s.fc1", &standardisation.inverse()).unwrap();
        assert_eq!(tensors, before);
    }
}
