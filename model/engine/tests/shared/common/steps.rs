//! Steps and data of a small alignment problem.

use ostar_engine::{
    Architecture, Engine, FieldRows, Generator, Inputs, Result, Rows,
    architecture::EncoderShape,
    engine::{
        Batch, ClassifierObjective, ClassifierStep, CriticStep, Diversity, EncoderStep, MapStep,
        PretrainStep, RawBatch,
    },
    optimiser::Adam,
    tensors::Scalars,
};

use super::normals;

/// Weight of the cross-entropy in every classifier's objective.
pub(crate) const CROSS_ENTROPY_WEIGHT: f64 = 0.8;

pub(crate) fn row_numbers(first: usize, count: usize) -> Vec<u32> {
    (first as u32..(first + count) as u32).collect()
}

/// Owned encoder inputs: dense rows, or numbers and bags of tokens. Some tokens are repeated and some bags empty.
pub(crate) struct OwnedInputs {
    width: usize,
    numbers: Vec<f32>,
    tokens: Vec<u32>,
    offsets: Vec<u32>,
}

impl OwnedInputs {
    pub(crate) fn random(
        architecture: &Architecture,
        rows: usize,
        generator: &mut Generator,
    ) -> Self {
        let mut inputs = Self {
            width: architecture.encoder_inputs(),
            numbers: Vec::new(),
            tokens: Vec::new(),
            offsets: vec![0],
        };
        if let EncoderShape::Fields {
            numbers,
            bags,
            buckets,
            ..
        } = architecture.encoder
        {
            inputs.width = numbers;
            for bag in 0..rows * bags {
                for _ in 0..bag % 4 {
                    inputs.tokens.push(generator.below(buckets) as u32);
                }
                inputs.offsets.push(inputs.tokens.len() as u32);
            }
        }
        inputs.numbers = normals(rows * inputs.width, 0.2, 1.0, generator);
        inputs
    }

    pub(crate) fn dense(numbers: Vec<f32>, width: usize) -> Self {
        Self {
            width,
            numbers,
            tokens: Vec::new(),
            offsets: vec![0],
        }
    }

    pub(crate) fn borrow(&self, architecture: &Architecture) -> Inputs<'_> {
        match architecture.encoder {
            EncoderShape::Fields { .. } => Inputs::Fields(FieldRows {
                numbers: Scalars::F32(&self.numbers),
                tokens: &self.tokens,
                offsets: &self.offsets,
            }),
            _ => Inputs::Dense(Rows::new(self.numbers.as_slice(), self.width).unwrap()),
        }
    }
}

/// Source and target data, drawn once and used by every engine.
pub(crate) struct Problem {
    pub(crate) architecture: Architecture,
    pub(crate) labels: Vec<u32>,
    pub(crate) source: Vec<f32>,
    pub(crate) target: Vec<f32>,
    pub(crate) source_inputs: OwnedInputs,
    pub(crate) target_inputs: OwnedInputs,
    pub(crate) proportions: Vec<f64>,
    pub(crate) class_weights: Vec<f64>,
}

impl Problem {
    /// Classes take turns and have separate means. The target is wider and shifted.
    pub(crate) fn random(architecture: &Architecture, rows: usize, seed: u64) -> Self {
        let generator = &mut Generator::new(seed);
        let (latent, classes) = (architecture.latent, architecture.classes);
        let labels: Vec<u32> = (0..rows).map(|row| (row % classes) as u32).collect();
        let mut source = normals(rows * latent, 0.0, 1.0, generator);
        for (row, label) in source.chunks_mut(latent).zip(&labels) {
            row.iter_mut().for_each(|z| *z += 0.7 * *label as f32);
        }
        let total: usize = (1..=classes).sum();
        let proportion = |class: usize| (class + 1) as f64 / total as f64;
        Self {
            architecture: architecture.clone(),
            labels,
            source,
            target: normals(rows * latent, 0.5, 1.3, generator),
            source_inputs: OwnedInputs::random(architecture, rows, generator),
            target_inputs: OwnedInputs::random(architecture, rows, generator),
            proportions: (0..classes).map(proportion).collect(),
            class_weights: (0..classes)
                .map(|c| proportion(c) * classes as f64)
                .collect(),
        }
    }

    pub(crate) fn load(&self, engine: &mut dyn Engine) {
        let width = self.architecture.latent;
        let source = Rows::new(self.source.as_slice(), width).unwrap();
        let target = Rows::new(self.target.as_slice(), width).unwrap();
        engine.set_source(source, &self.labels).unwrap();
        engine.set_target(0, target).unwrap();
    }

    pub(crate) fn map_step(&self, adam: Adam) -> MapStep<'_> {
        MapStep {
            proportions: &self.proportions,
            transport_weight: 0.1,
            adam,
        }
    }

    pub(crate) fn encoder_step(
        &self,
        terms: Terms,
        through_map: bool,
        adam: Adam,
    ) -> EncoderStep<'_> {
        EncoderStep {
            objective: terms.objective(self),
            through_map,
            encoder_adam: adam,
            classifier_adam: adam,
        }
    }

    pub(crate) fn pretrain_step(&self, adam: Adam) -> PretrainStep<'_> {
        PretrainStep {
            class_weights: &self.class_weights,
            encoder_adam: adam,
            classifier_adam: adam,
        }
    }
}

/// A step of [`Engine`] and the settings that tests vary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Critic {
        penalty_weight: f64,
    },
    Map,
    Classifier(Terms),
    Encoder(Terms),
    /// With the loss of mapped source rows in the encoder, too.
    EncoderThroughMap(Terms),
    Pretrain,
}

/// The terms of a classifier's objective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Terms {
    CrossEntropy,
    Entropy,
    MarginalEntropy,
    Divergence,
}

impl Terms {
    pub(crate) const ALL: [Self; 4] = [
        Self::CrossEntropy,
        Self::Entropy,
        Self::MarginalEntropy,
        Self::Divergence,
    ];

    fn objective(self, problem: &Problem) -> ClassifierObjective<'_> {
        ClassifierObjective {
            class_weights: &problem.class_weights,
            cross_entropy_weight: CROSS_ENTROPY_WEIGHT,
            entropy_weight: match self {
                Self::CrossEntropy => 0.0,
                _ => 0.3,
            },
            diversity: match self {
                Self::CrossEntropy | Self::Entropy => Diversity::None,
                Self::MarginalEntropy => Diversity::MarginalEntropy { weight: 0.2 },
                Self::Divergence => Diversity::Divergence {
                    weight: 0.4,
                    proportions: &problem.proportions,
                },
            },
        }
    }
}

/// Takes one step and returns every number of its report, the loss first. Steps on raw inputs use all rows of the
/// problem, the others use `rows`.
pub(crate) fn take(
    kind: Kind,
    engine: &mut dyn Engine,
    problem: &Problem,
    rows: &[u32],
    adam: Adam,
    generator: &mut Generator,
) -> Result<Vec<f64>> {
    let batch = Batch {
        source: rows,
        target: rows,
    };
    let architecture = &problem.architecture;
    let source = problem.source_inputs.borrow(architecture);
    Ok(match kind {
        Kind::Critic { penalty_weight } => {
            let positions: Vec<f64> = rows.iter().map(|_| generator.uniform()).collect();
            let step = CriticStep {
                proportions: &problem.proportions,
                positions: &positions,
                penalty_weight,
                map_follows: true,
                adam,
            };
            let report = engine.critic_step(batch, &step)?;
            vec![report.loss, report.distance, report.penalty]
        }
        Kind::Map => {
            let report = engine.map_step(batch, &problem.map_step(adam))?;
            vec![report.loss, report.distance, report.transport_cost]
        }
        Kind::Classifier(terms) => {
            let step = ClassifierStep {
                objective: terms.objective(problem),
                adam,
            };
            let report = engine.classifier_step(batch, &step, generator)?;
            vec![
                report.loss,
                report.cross_entropy,
                report.entropy,
                report.diversity,
            ]
        }
        Kind::Encoder(terms) | Kind::EncoderThroughMap(terms) => {
            let batch = RawBatch {
                source,
                labels: &problem.labels,
                target: problem.target_inputs.borrow(architecture),
            };
            let through_map = matches!(kind, Kind::EncoderThroughMap(_));
            let step = problem.encoder_step(terms, through_map, adam);
            let report = engine.encoder_step(batch, &step, generator)?;
            vec![
                report.loss,
                report.source_cross_entropy,
                report.classifier.loss,
                report.classifier.cross_entropy,
                report.classifier.entropy,
                report.classifier.diversity,
            ]
        }
        Kind::Pretrain => {
            let step = problem.pretrain_step(adam);
            let report = engine.pretrain_step(source, &problem.labels, &step, generator)?;
            vec![report.loss]
        }
    })
}
