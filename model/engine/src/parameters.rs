//! Names of the tensors that engines export, and the checks of an import.
//!
//! The whole import is checked before anything is replaced, so that an engine imports everything or nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Architecture, Error, HostTensor, NamedTensors, Result,
    architecture::{Network, ParameterSpec, Role},
    tensors::require,
};

/// An import that fits the architecture: every parameter, and the optimiser state that it contains.
pub(crate) struct CheckedImport<'t> {
    /// In the order of [`Architecture::parameters`].
    pub(crate) parameters: Vec<ImportedParameter<'t>>,
    /// Steps taken by each network's optimiser. Networks without optimiser state are not listed.
    pub(crate) steps: BTreeMap<Network, u64>,
}

/// A parameter of an import. Its tensors have the shape of `spec` and finite values.
pub(crate) struct ImportedParameter<'t> {
    pub(crate) spec: ParameterSpec,
    pub(crate) value: &'t HostTensor,
    /// Adam's first and second moment; `None` when the optimiser starts anew.
    pub(crate) moments: Option<(&'t HostTensor, &'t HostTensor)>,
}

pub(crate) fn first_moment_name(parameter: &str) -> String {
    format!("adam.first.{parameter}")
}

pub(crate) fn second_moment_name(parameter: &str) -> String {
    format!("adam.second.{parameter}")
}

pub(crate) fn steps_name(network: Network) -> String {
    format!("adam.steps.{}", network.prefix())
}

/// A step count as it is exported: one double, exact up to 2^53.
pub(crate) fn steps_tensor(steps: u64) -> HostTensor {
    HostTensor::f64([1], vec![steps as f64])
}

/// Checks names, shapes and values of everything in `tensors` and returns the first problem. A network must have all
/// of its optimiser state or none.
pub(crate) fn check_import<'t>(
    architecture: &Architecture,
    tensors: &'t NamedTensors,
) -> Result<CheckedImport<'t>> {
    let specs = architecture.parameters();
    let resumed = resumed_networks(&specs, tensors);
    let mut known = BTreeSet::new();
    let mut steps = BTreeMap::new();
    for network in &resumed {
        let name = steps_name(*network);
        steps.insert(*network, step_count(tensors, &name)?);
        known.insert(name);
    }
    let mut parameters = Vec::with_capacity(specs.len());
    for spec in specs {
        let value = finite(tensors, &spec.name, &spec.shape)?;
        if spec.role == Role::RunningVariance {
            not_negative(&spec.name, value)?;
        }
        known.insert(spec.name.clone());
        let mut moments = None;
        if spec.is_trained() && resumed.contains(&spec.network) {
            let (first, second) = (
                first_moment_name(&spec.name),
                second_moment_name(&spec.name),
            );
            let pair = (
                finite(tensors, &first, &spec.shape)?,
                finite(tensors, &second, &spec.shape)?,
            );
            not_negative(&second, pair.1)?;
            moments = Some(pair);
            known.extend([first, second]);
        }
        parameters.push(ImportedParameter {
            spec,
            value,
            moments,
        });
    }
    match tensors.keys().find(|name| !known.contains(*name)) {
        None => Ok(CheckedImport { parameters, steps }),
        Some(name) => Err(Error::UnexpectedTensor { name: name.clone() }),
    }
}

/// Networks of which `tensors` has any optimiser state. The rest of their state must be there too.
fn resumed_networks(specs: &[ParameterSpec], tensors: &NamedTensors) -> BTreeSet<Network> {
    let has = |name: &str| tensors.contains_key(name);
    specs
        .iter()
        .filter(|spec| spec.is_trained())
        .filter(|spec| {
            has(&steps_name(spec.network))
                || has(&first_moment_name(&spec.name))
                || has(&second_moment_name(&spec.name))
        })
        .map(|spec| spec.network)
        .collect()
}

/// The tensor `name`, which must have this shape and finite values.
pub fn finite<'t>(
    tensors: &'t NamedTensors,
    name: &str,
    shape: &[usize],
) -> Result<&'t HostTensor> {
    let tensor = require(tensors, name, shape)?;
    let values = tensor.values.as_scalars();
    if values.len() != shape.iter().product::<usize>() {
        return Err(Error::shape(
            format!("tensor `{name}`"),
            format!("as many values as shape {shape:?} holds"),
            values.len(),
        ));
    }
    match values.first_non_finite() {
        None => Ok(tensor),
        Some(index) => Err(Error::setting(
            format!("tensor `{name}`"),
            format!(
                "value {index} is {}, only finite numbers are accepted",
                values.get(index)
            ),
        )),
    }
}

/// No number of the tensor may be below 0.
pub fn not_negative(name: &str, tensor: &HostTensor) -> Result<()> {
    let values = tensor.values.as_scalars();
    match (0..values.len()).find(|index| values.get(*index) < 0.0) {
        None => Ok(()),
        Some(index) => Err(Error::setting(
            format!("tensor `{name}`"),
            format!("value {index} is {}, expected 0 or more", values.get(index)),
        )),
    }
}

fn step_count(tensors: &NamedTensors, name: &str) -> Result<u64> {
    let steps = finite(tensors, name, &[1])?.values.as_scalars().get(0);
    if steps >= 1.0 && steps.fract() == 0.0 {
        return Ok(steps as u64);
    }
    Err(Error::setting(
        format!("tensor `{name}`"),
        format!("is {steps}, expected a whole number of steps, 1 or more"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Generator,
        architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
        initial_parameters,
    };

    fn architecture() -> Architecture {
        Architecture {
            classes: 2,
            latent: 3,
            encoder: EncoderShape::Identity,
            map: MapShape {
                blocks: 1,
                norm: Norm::Batch,
            },
            critic: CriticShape { hidden: vec![] },
            classifier: ClassifierShape {
                hidden: vec![],
                norm: Norm::None,
                dropout: 0.0,
            },
        }
    }

    /// The error message of an import with one tensor added, replaced or (`None`) removed.
    fn refusal(name: &str, tensor: Option<HostTensor>) -> String {
        let mut tensors = initial_parameters(&architecture(), &mut Generator::new(1));
        for parameter in ["critic.fc1.weight", "critic.fc1.bias"] {
            let zeros = HostTensor::f32(
                tensors[parameter].shape.clone(),
                vec![0.0; tensors[parameter].values.as_scalars().len()],
            );
            tensors.insert(first_moment_name(parameter), zeros.clone());
            tensors.insert(second_moment_name(parameter), zeros);
        }
        tensors.insert(steps_name(Network::Critic), steps_tensor(3));
        let checked = check_import(&architecture(), &tensors).unwrap();
        assert_eq!(checked.steps, BTreeMap::from([(Network::Critic, 3)]));
        match tensor {
            Some(tensor) => tensors.insert(name.to_owned(), tensor),
            None => tensors.remove(name),
        };
        let refused = check_import(&architecture(), &tensors);
        refused.map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_refused_import_names_the_tensor_and_the_problem() {
        let numbers = |values: Vec<f32>| Some(HostTensor::f32([values.len()], values));
        for (name, tensor, problem) in [
            ("f_n.fc1.bias", None, "missing"),
            ("f_n.fc1.bias", numbers(vec![0.0; 3]), "expected shape [2]"),
            (
                "f_n.fc1.bias",
                numbers(vec![0.0, f32::NAN]),
                "value 1 is NaN",
            ),
            ("f_n.fc9.bias", numbers(vec![0.0]), "does not belong"),
            (
                "phi.blocks.0.bn.running_var",
                numbers(vec![1.0, -1.0, 1.0]),
                "value 1 is -1",
            ),
            ("adam.steps.critic", None, "missing"),
            ("adam.steps.critic", numbers(vec![0.5]), "whole number"),
            ("adam.first.critic.fc1.bias", None, "missing"),
            (
                "adam.second.critic.fc1.bias",
                numbers(vec![-1.0]),
                "value 0 is -1",
            ),
            ("adam.steps.g", numbers(vec![1.0]), "does not belong"),
        ] {
            let message = refusal(name, tensor);
            assert!(
                message.contains(&format!("`{name}`")) && message.contains(problem),
                "{name}: {message}"
            );
        }
    }

    #[test]
    fn moments_without_their_step_count_name_the_step_count() {
        let message = refusal(
            "adam.first.f_n.fc1.bias",
            Some(HostTensor::f32([2], vec![0.0; 2])),
        );
        assert!(message.contains("`adam.steps.f_n` is missing"), "{message}");
    }
}
