//! Reads golden vectors and compares engines with them, at the precision that their README states.

use std::{collections::BTreeMap, env, fs, path::PathBuf};

use ostar_engine::{
    Architecture, Generator, NamedTensors, Rows,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
    initial_parameters,
    tensors::from_safetensors,
};

use crate::{
    TestedEngine,
    common::{assert_close, gradients, largest},
    engines,
};

/// Tensors and scalars of one golden file.
pub(crate) struct Case {
    pub(crate) tensors: NamedTensors,
    pub(crate) scalars: BTreeMap<String, f64>,
}

impl Case {
    pub(crate) fn read(name: &str) -> Self {
        let folder = match env::var_os("OSTAR_GOLDEN") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../golden"),
        };
        let bytes = fs::read(folder.join(format!("{name}.safetensors"))).unwrap();
        let index = fs::read_to_string(folder.join("index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_str(&index).unwrap();
        Self {
            tensors: from_safetensors(&bytes).unwrap(),
            scalars: serde_json::from_value(index[name]["scalars"].clone()).unwrap(),
        }
    }

    pub(crate) fn values(&self, name: &str) -> Vec<f64> {
        self.tensors[name].to_f64()
    }

    /// Class labels or other small whole numbers.
    pub(crate) fn labels(&self) -> Vec<u32> {
        self.values("y").iter().map(|label| *label as u32).collect()
    }

    /// The tensor as a matrix. A row of images is an image; otherwise all dimensions but the last make the rows.
    pub(crate) fn rows(&self, name: &str) -> (Vec<f64>, usize) {
        let width = match self.tensors[name].shape[..] {
            [_, channels, height, width] => channels * height * width,
            ref shape => *shape.last().unwrap(),
        };
        (self.values(name), width)
    }

    /// Output widths of `prefix.fc1`, `prefix.fc2`, ... but the last.
    pub(crate) fn hidden(&self, prefix: &str) -> Vec<usize> {
        let mut widths: Vec<usize> = (1..)
            .map_while(|i| self.tensors.get(&format!("{prefix}.fc{i}.weight")))
            .map(|weight| weight.shape[0])
            .collect();
        widths.pop();
        widths
    }

    /// Networks of the sizes in the file. Networks that are not in it are small.
    pub(crate) fn architecture(&self, latent: usize, classes: usize) -> Architecture {
        let blocks = (0..)
            .take_while(|i| {
                let name = format!("phi.blocks.{i}.fc1.weight");
                self.tensors.contains_key(&name)
            })
            .count();
        let weight = |name: &str| self.tensors.get(&format!("g.{name}.weight"));
        let encoder = match (weight("fc1"), weight("conv1"), weight("conv2")) {
            (Some(weight), ..) => EncoderShape::Mlp {
                inputs: weight.shape[1],
                hidden: self.hidden("g"),
                final_relu: false,
            },
            (None, Some(first), Some(second)) => EncoderShape::Convolution {
                filters: [first.shape[0], second.shape[0]],
            },
            _ => EncoderShape::Identity,
        };
        Architecture {
            classes,
            latent,
            encoder,
            map: MapShape {
                blocks,
                norm: Norm::Batch,
            },
            critic: CriticShape {
                hidden: self.hidden("critic"),
            },
            classifier: ClassifierShape {
                hidden: self.hidden("f_n"),
                norm: Norm::Batch,
                dropout: 0.0,
            },
        }
    }

    /// The engines with the file's weights. Networks that are not in it get fresh parameters.
    pub(crate) fn engines(&self, architecture: &Architecture) -> Vec<TestedEngine> {
        let mut parameters = initial_parameters(architecture, &mut Generator::new(1));
        for (name, value) in parameters.iter_mut() {
            if let Some(given) = self.tensors.get(name) {
                *value = given.clone();
            }
        }
        engines(architecture, &parameters)
    }

    /// The engines with a source and a target batch of latents as their buffers.
    pub(crate) fn engines_on(
        &self,
        source: &str,
        target: &str,
        classes: usize,
    ) -> Vec<TestedEngine> {
        let (source, width) = self.rows(source);
        let (target, _) = self.rows(target);
        let mut tested = self.engines(&self.architecture(width, classes));
        for tested in &mut tested {
            let engine = &mut tested.engine;
            let source = Rows::new(source.as_slice(), width).unwrap();
            let target = Rows::new(target.as_slice(), width).unwrap();
            engine.set_source(source, &self.labels()).unwrap();
            engine.set_target(0, target).unwrap();
        }
        tested
    }

    #[track_caller]
    pub(crate) fn check_scalar(&self, tested: &TestedEngine, name: &str, found: f64) {
        let expected = self.scalars[name];
        // A distance near 0 is a difference of larger numbers and has the scale of the loss.
        let scale = expected.abs().max(self.scalars["loss"].abs());
        let what = format!("{}: {name}", tested.name);
        let tolerance = single_step_tolerance(tested);
        assert_close(&what, &[found], &[expected], scale, tolerance);
    }

    /// Checks that the engine has exactly the gradients of the file.
    #[track_caller]
    pub(crate) fn check_gradients(&self, tested: &TestedEngine) {
        let expected: BTreeMap<&str, Vec<f64>> = self
            .tensors
            .iter()
            .filter_map(|(name, tensor)| Some((name.strip_prefix("grad.")?, tensor.to_f64())))
            .collect();
        let found = gradients(tested.engine.as_ref());
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, expected.keys().copied().collect::<Vec<_>>());
        let largest_of_all = expected.values().map(|g| largest(g)).fold(0.0, f64::max);
        for (name, expected) in expected {
            // A gradient that is exactly 0 has no scale of its own.
            let scale = match largest(&expected) {
                own if own < 1e-12 => largest_of_all,
                own => own,
            };
            let what = format!("{}: gradient of {name}", tested.name);
            let tolerance = single_step_tolerance(tested);
            assert_close(&what, &found[name].to_f64(), &expected, scale, tolerance);
        }
    }
}

pub(crate) fn single_step_tolerance(tested: &TestedEngine) -> f64 {
    if tested.is_double { 1e-9 } else { 1e-4 }
}

/// Outputs are in single precision whatever the engine computes in.
pub(crate) fn check_output(what: &str, tested: &TestedEngine, found: &[f32], expected: &[f64]) {
    let found: Vec<f64> = found.iter().map(|value| f64::from(*value)).collect();
    let what = format!("{}: {what}", tested.name);
    let tolerance = single_step_tolerance(tested).max(1e-6);
    assert_close(&what, &found, expected, largest(expected), tolerance);
}
