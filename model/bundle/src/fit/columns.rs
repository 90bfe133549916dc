//! The numeric columns of the training data: how far they go, and which of them never vary.

use ostar_engine::{
    Architecture, Inputs, NamedTensors, Result, Rows,
    evaluate::{Clip, Standardisation, fold_affine},
    moments::Moments,
    tensors::Values,
};

/// Inputs further than so many deviations from their mean are clipped. A model has not seen what lies beyond, and
/// would extrapolate.
const DEVIATIONS: f64 = 5.0;

/// A column is constant if its standardised training values have a deviation below this. What varies so little
/// trains no weight, and a later move by one deviation would be a thousand times what was seen.
const LEAST_DEVIATION: f64 = 1e-3;

/// Bounds of numeric columns, and what is needed to train on them.
pub(super) struct Columns {
    /// Of dense rows. Numbers of fields are standardised already: `None`.
    scale: Option<Standardisation>,
    is_constant: Vec<bool>,
    clip: Clip,
}

impl Columns {
    /// Measures the columns of checked `inputs`: their scale on all rows, whether they vary on the rows
    /// numbered `training`.
    pub(super) fn measure(
        inputs: &Inputs<'_>,
        architecture: &Architecture,
        training: &[u32],
    ) -> Result<Self> {
        let scale = match inputs {
            Inputs::Dense(rows) => Some(Standardisation::of(*rows)?),
            Inputs::Fields(_) => None,
        };
        let width = architecture.numeric_inputs();
        let identity = Standardisation::identity(width);
        let Standardisation { mean, deviation } = scale.as_ref().unwrap_or(&identity);
        let values = inputs.numbers();
        let mut row = vec![0.0; width];
        let mut moments = vec![Moments::default(); width];
        // Of the raw values seen in training.
        let (mut lowest, mut highest) = (vec![f32::MAX; width], vec![f32::MIN; width]);
        for number in training {
            values.copy_f32(*number as usize * width, &mut row);
            for (column, value) in row.iter().enumerate() {
                moments[column].add((f64::from(*value) - mean[column]) / deviation[column]);
                lowest[column] = lowest[column].min(*value);
                highest[column] = highest[column].max(*value);
            }
        }
        let is_constant: Vec<bool> = moments
            .iter()
            .map(|column| column.spread() < LEAST_DEVIATION)
            .collect();
        // A constant column has no deviation; it is held within what training has seen.
        let bound = |column: usize, deviations: f64, seen: f32| {
            let bound = mean[column] + deviations * deviation[column];
            let bound = bound.clamp(f32::MIN.into(), f32::MAX.into()) as f32;
            if is_constant[column] { seen } else { bound }
        };
        let bounds = |deviations: f64, seen: &[f32]| {
            let seen = seen.iter().enumerate();
            seen.map(|(column, seen)| bound(column, deviations, *seen))
                .collect()
        };
        let clip = Clip {
            lower: bounds(-DEVIATIONS, &lowest),
            upper: bounds(DEVIATIONS, &highest),
        };
        Ok(Self {
            scale,
            is_constant,
            clip,
        })
    }

    /// What events are clipped to; `None` without columns.
    pub(super) fn clip(&self) -> Option<Clip> {
        (!self.is_constant.is_empty()).then(|| self.clip.clone())
    }

    /// The numbers that networks are trained on: clipped, standardised, and 0 in constant columns.
    pub(super) fn training_values(&self, inputs: &Inputs<'_>) -> Result<Vec<f32>> {
        let width = self.is_constant.len();
        let numbers = inputs.numbers();
        let mut values = vec![0.0; numbers.len()];
        numbers.copy_f32(0, &mut values);
        self.clip.apply(&mut values);
        if let Some(scale) = &self.scale {
            values = scale.apply(Rows::new(&values[..], width)?)?;
        }
        for row in values.chunks_exact_mut(width.max(1)) {
            self.zero_constant(row);
        }
        Ok(values)
    }

    /// Makes `layer`, which was trained on [`Columns::training_values`], take clipped inputs as they come.
    ///
    /// Constant columns get no weight. Their training values were 0, so their weights are still the random ones of the
    /// start, and a later change of the column would be multiplied by them. The weights on embeddings, which follow
    /// the numbers, stay: tokens that were not seen in training have small embeddings (see `spread_parameters`)
    /// which no event can make larger.
    pub(super) fn finish(&self, weights: &mut NamedTensors, layer: &str) -> Result<()> {
        let name = format!("{layer}.weight");
        if let Some(weight) = weights.get_mut(&name) {
            let width = weight.shape[1];
            let mut values = weight.to_f32();
            values
                .chunks_exact_mut(width)
                .for_each(|row| self.zero_constant(row));
            weight.values = Values::F32(values);
        }
        match &self.scale {
            Some(scale) => fold_affine(weights, layer, &scale.inverse()),
            None => Ok(()),
        }
    }

    /// Zeroes what stands in a row's constant columns.
    fn zero_constant(&self, row: &mut [f32]) {
        for (value, is_constant) in row.iter_mut().zip(&self.is_constant) {
            if *is_constant {
                *value = 0.0;
            }
        }
    }
}
