//! A parameter with its optimiser's moments.

use pulp::Arch;

use crate::{
    HostTensor, NamedTensors,
    architecture::ParameterSpec,
    optimiser::AdamCoefficients,
    parameters::{ImportedParameter, first_moment_name, second_moment_name},
};

/// Values, Adam's moments, and room for the sum of the members' gradients. A convolution's weights are stored as
/// `[out, height, width, in]`, because images are stored pixel by pixel with their channels next to each other.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) spec: ParameterSpec,
    pub(crate) value: Vec<f32>,
    first: Vec<f32>,
    second: Vec<f32>,
    gradient: Vec<f32>,
}

impl Parameter {
    pub(crate) fn new(spec: ParameterSpec) -> Self {
        let zeros = vec![0.0; spec.len()];
        let moments = if spec.is_trained() {
            zeros.clone()
        } else {
            Vec::new()
        };
        Self {
            value: zeros,
            first: moments.clone(),
            second: moments.clone(),
            gradient: moments,
            spec,
        }
    }

    /// One step of Adam by the sum of the members' gradients.
    pub(crate) fn update<'p>(
        &mut self,
        arch: Arch,
        partials: impl Iterator<Item = &'p [f32]>,
        adam: &AdamCoefficients,
    ) {
        let (beta1, beta2) = (adam.beta1 as f32, adam.beta2 as f32);
        let (step_size, second_scale) = (adam.step_size as f32, adam.second_scale as f32);
        let epsilon = adam.epsilon as f32;
        arch.dispatch(
            #[inline(always)]
            || {
                for (number, partial) in partials.enumerate() {
                    match number {
                        0 => self.gradient.copy_from_slice(partial),
                        _ => {
                            for (sum, part) in self.gradient.iter_mut().zip(partial) {
                                *sum += part;
                            }
                        }
                    }
                }
                let moments = self.first.iter_mut().zip(&mut self.second);
                let entries = self.value.iter_mut().zip(&self.gradient).zip(moments);
                for ((value, gradient), (first, second)) in entries {
                    *first = beta1 * *first + (1.0 - beta1) * gradient;
                    *second = beta2 * *second + (1.0 - beta2) * gradient * gradient;
                    *value -= step_size * *first / (second_scale * second.sqrt() + epsilon);
                }
            },
        );
    }

    pub(crate) fn export(&self, with_moments: bool, tensors: &mut NamedTensors) {
        let spec = &self.spec;
        let tensor =
            |values: &[f32]| HostTensor::f32(spec.shape.clone(), self.channels_first(values));
        tensors.insert(spec.name.clone(), tensor(&self.value));
        if with_moments && spec.is_trained() {
            tensors.insert(first_moment_name(&spec.name), tensor(&self.first));
            tensors.insert(second_moment_name(&spec.name), tensor(&self.second));
        }
    }

    /// Replaces values and moments. Moments that are not in the import start at 0.
    pub(crate) fn import(&mut self, imported: &ImportedParameter<'_>) {
        debug_assert_eq!(self.spec, imported.spec);
        self.value = self.channels_last(imported.value.to_f32());
        if self.spec.is_trained() {
            let zeros = || vec![0.0; self.spec.len()];
            (self.first, self.second) = match imported.moments {
                Some((first, second)) => (
                    self.channels_last(first.to_f32()),
                    self.channels_last(second.to_f32()),
                ),
                None => (zeros(), zeros()),
            };
        }
    }

    fn channels_first(&self, values: &[f32]) -> Vec<f32> {
        match self.spec.shape[..] {
            [_, channels, height, width] => transposed(values, height * width, channels),
            _ => values.to_vec(),
        }
    }

    fn channels_last(&self, values: Vec<f32>) -> Vec<f32> {
        match self.spec.shape[..] {
            [_, channels, height, width] => transposed(&values, channels, height * width),
            _ => values,
        }
    }
}

/// Transposes every block of `rows` x `columns` numbers.
fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let blocks = values.chunks_exact(rows * columns);
    let entry = |block: &[f32], place: usize| block[place % rows * columns + place / rows];
    blocks
        .flat_map(|block| (0..block.len()).map(move |place| entry(block, place)))
        .collect()
}
