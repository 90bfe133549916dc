//! Alignment of random buffers on the CPU engine, in a loop that allocates nothing itself.

// Each test file is its own crate and uses a part of this.
#![allow(dead_code)]

use ostar_engine::{
    Architecture, Engine, Generator, Result, Rows,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
    cpu::CpuEngine,
    engine::{
        Batch, ClassifierObjective, ClassifierReport, ClassifierStep, CriticReport, CriticStep,
        Diversity, Head, MapReport, MapStep,
    },
    initial_parameters,
    optimiser::Adam,
};

/// Rows of the source buffer and of the target buffer.
const ROWS: usize = 1000;

/// An engine with filled buffers, and the memory that its steps borrow.
pub(crate) struct Alignment {
    pub(crate) engine: CpuEngine,
    generator: Generator,
    source: Vec<u32>,
    target: Vec<u32>,
    positions: Vec<f64>,
    proportions: Vec<f64>,
    class_weights: Vec<f64>,
    events: Vec<f32>,
    probabilities: Vec<f32>,
}

/// Small networks on latents, with every kind of layer.
pub(crate) fn small_networks(norm: Norm) -> Architecture {
    Architecture {
        classes: 3,
        latent: 8,
        encoder: EncoderShape::Identity,
        map: MapShape { blocks: 2, norm },
        critic: CriticShape {
            hidden: vec![16, 12],
        },
        classifier: ClassifierShape {
            hidden: vec![12, 12],
            norm,
            dropout: 0.1,
        },
    }
}

impl Alignment {
    /// Draws networks, buffers and all later batches from one seed.
    pub(crate) fn new(
        architecture: &Architecture,
        batch_rows: usize,
        threads: usize,
        seed: u64,
    ) -> Result<Self> {
        let mut generator = Generator::new(seed);
        let parameters = initial_parameters(architecture, &mut generator);
        let mut engine = CpuEngine::new(architecture.clone(), &parameters, threads)?;
        let (classes, latent) = (architecture.classes, architecture.latent);
        let labels: Vec<u32> = (0..ROWS).map(|row| (row % classes) as u32).collect();
        let mut normals = |count: usize, mean: f64| -> Vec<f32> {
            (0..count)
                .map(|_| (mean + generator.normal()) as f32)
                .collect()
        };
        let source = normals(ROWS * latent, 0.0);
        let target = normals(ROWS * latent, 0.5);
        engine.set_source(Rows::new(source.as_slice(), latent)?, &labels)?;
        engine.set_target(0, Rows::new(target.as_slice(), latent)?)?;
        Ok(Self {
            engine,
            generator,
            source: vec![0; batch_rows],
            target: vec![0; batch_rows],
            positions: vec![0.0; batch_rows],
            proportions: vec![1.0 / classes as f64; classes],
            class_weights: vec![1.0; classes],
            events: target[..256 * latent].to_vec(),
            probabilities: Vec::new(),
        })
    }

    /// A fresh batch for the steps that follow.
    pub(crate) fn draw(&mut self) {
        let generator = &mut self.generator;
        self.source.fill_with(|| generator.below(ROWS) as u32);
        self.target.fill_with(|| generator.below(ROWS) as u32);
        self.positions.fill_with(|| generator.uniform());
    }

    pub(crate) fn critic_step(&mut self) -> Result<CriticReport> {
        let step = CriticStep {
            proportions: &self.proportions,
            positions: &self.positions,
            penalty_weight: 10.0,
            map_follows: true,
            adam: Adam::with_rate(1e-3),
        };
        let batch = Batch {
            source: &self.source,
            target: &self.target,
        };
        self.engine.critic_step(batch, &step)
    }

    pub(crate) fn map_step(&mut self) -> Result<MapReport> {
        let step = MapStep {
            proportions: &self.proportions,
            transport_weight: 0.01,
            adam: Adam::with_rate(1e-3),
        };
        let batch = Batch {
            source: &self.source,
            target: &self.target,
        };
        self.engine.map_step(batch, &step)
    }

    /// One classifier step, with or without information maximisation.
    pub(crate) fn classifier_step(&mut self, maximise: bool) -> Result<ClassifierReport> {
        let divergence = Diversity::Divergence {
            weight: 0.1,
            proportions: &self.proportions,
        };
        let objective = ClassifierObjective {
            class_weights: &self.class_weights,
            cross_entropy_weight: 1.0,
            entropy_weight: if maximise { 0.1 } else { 0.0 },
            diversity: if maximise {
                divergence
            } else {
                Diversity::None
            },
        };
        let step = ClassifierStep {
            objective,
            adam: Adam::with_rate(1e-3),
        };
        let batch = Batch {
            source: &self.source,
            target: &self.target,
        };
        self.engine
            .classifier_step(batch, &step, &mut self.generator)
    }

    pub(crate) fn score(&mut self) -> Result<()> {
        let width = self.engine.architecture().latent;
        let events = Rows::new(self.events.as_slice(), width)?;
        self.engine
            .score(Head::Target, events, &mut self.probabilities)
    }
}
