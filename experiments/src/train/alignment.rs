//! OSTAR: critic, map and target classifier on stored latents (CAL, SS), then with the encoder in training, too (SSg).

use anyhow::Result;
use ostar_engine::{
    Engine, Generator, Rows,
    cpu::{CpuEngine, InvariantStep},
    engine::{
        Batch, ClassifierObjective, ClassifierStep, CriticStep, Diversity, EncoderStep, Head,
        MapReport, MapStep,
    },
    optimiser::{Adam, RateSchedule},
    weights::class_ratios,
};

use super::{
    Latents, Outcome, Pretrained, Setup, Watch,
    batches::{Gathered, Numbers},
    checkpoints::TrainingState,
    finish,
    proportions::estimate,
    trace::EpochTrace,
};
use crate::method::Stage;

/// Weight of the critic's gradient penalty (gamma).
pub(super) const PENALTY_WEIGHT: f64 = 10.0;

struct Alignment<'s> {
    setup: &'s Setup<'s>,
    stage: Stage,
    engine: CpuEngine,
    state: TrainingState,
    gathered: Gathered,
    source_proportions: Vec<f64>,
    /// Rate multiplier of this step.
    decay: f64,
    /// Of this epoch's map steps, for [`EpochTrace`].
    map_reports: Vec<MapReport>,
}

pub(super) fn run(
    setup: &Setup<'_>,
    stage: Stage,
    pretrained: &Pretrained,
    generator: Generator,
    watch: &mut Watch<'_>,
) -> Result<Outcome> {
    let (task, protocol) = (setup.task, setup.protocol);
    let mut alignment = Alignment {
        setup,
        stage,
        engine: pretrained.engine(setup)?,
        state: TrainingState::new(task, protocol.batch, protocol.alignment_epoch, generator),
        gathered: Gathered::default(),
        source_proportions: task.source.proportions(task.classes),
        decay: 1.0,
        map_reports: Vec::new(),
    };
    if let Some((tensors, state)) = watch.checkpoints.load()? {
        alignment.engine.import(&tensors)?;
        alignment.state = state;
    }
    // The encoder is fixed until SSg, which fills the buffers batch by batch.
    alignment.load_latents()?;
    let work = Work::new(setup, stage);
    while alignment.state.epoch <= protocol.epochs {
        alignment.epoch(&work, watch)?;
        alignment.state.epoch += 1;
        let engine = &alignment.engine;
        watch
            .checkpoints
            .save_if_due(|| engine.export(), &alignment.state)?;
    }
    let TrainingState {
        proportions,
        transport_cost,
        ..
    } = alignment.state;
    let proportions = Some(proportions.value().to_vec());
    let engine = &mut alignment.engine;
    finish(setup, engine, Head::Target, proportions, transport_cost)
}

/// Whether proportions are estimated at the start of this epoch: at the first one of alignment and every few after it.
/// The count starts anew with the epoch from which the encoder may learn.
pub(super) fn is_refreshed(setup: &Setup<'_>, epoch: usize) -> bool {
    let protocol = setup.protocol;
    let [before, after] = protocol.refresh_epochs;
    if epoch >= protocol.encoder_epoch {
        (epoch - protocol.encoder_epoch).is_multiple_of(after)
    } else {
        (epoch - protocol.alignment_epoch).is_multiple_of(before)
    }
}

impl Alignment<'_> {
    fn epoch(&mut self, work: &Work, watch: &mut Watch<'_>) -> Result<()> {
        let (protocol, epoch) = (self.setup.protocol, self.state.epoch);
        let encoder_learns = self.stage == Stage::Encoder && epoch >= protocol.encoder_epoch;
        if is_refreshed(self.setup, epoch) {
            self.refresh()?;
        }
        let schedule = RateSchedule::Decaying {
            steps: work.steps() as u64,
        };
        self.map_reports.clear();
        let mut done = (epoch - protocol.alignment_epoch) * work.epoch_steps;
        for _ in 0..work.epoch_steps {
            self.decay = schedule.rate(1.0, done as u64);
            if encoder_learns {
                self.step_with_encoder()?;
            } else {
                self.step()?;
            }
            done += 1;
            (watch.progress)(work.fraction(done));
        }
        if let Some(tell) = &mut watch.epochs {
            let proportions = self.state.proportions.value();
            let reports = &self.map_reports;
            let engine = &mut self.engine;
            let trace = EpochTrace::measure(self.setup, epoch, engine, reports, proportions)?;
            tell(&trace)?;
        }
        Ok(())
    }

    /// Encodes both domains in evaluation mode into the buffers that batches are drawn from.
    fn load_latents(&mut self) -> Result<()> {
        let latents = self.encode()?;
        let width = self.engine.architecture().latent;
        let source = Rows::new(&latents.source[..], width)?;
        self.engine
            .set_source(source, &self.setup.task.source.labels)?;
        self.engine
            .set_target(0, Rows::new(&latents.target[..], width)?)?;
        Ok(())
    }

    fn encode(&mut self) -> Result<Latents> {
        let mut latents = Latents::default();
        let task = self.setup.task;
        self.engine
            .encode(task.source.inputs()?, &mut latents.source)?;
        self.engine
            .encode(task.target.inputs()?, &mut latents.target)?;
        Ok(latents)
    }

    fn refresh(&mut self) -> Result<()> {
        let mut latents = self.encode()?;
        let width = self.engine.architecture().latent;
        let mut mapped = Vec::new();
        let rows = Rows::new(&latents.source[..], width)?;
        self.engine.transport(rows, &mut mapped)?;
        latents.source = mapped;
        let (setup, engine) = (self.setup, &mut self.engine);
        let estimator = setup.protocol.estimator;
        let estimate = estimate(setup, estimator, engine, Head::Target, &latents)?;
        self.state.proportions.add(&estimate);
        Ok(())
    }

    fn adam(&self, multiplier: usize) -> Adam {
        let protocol = self.setup.protocol;
        Adam::with_rate(protocol.base_rate * protocol.multipliers[multiplier] * self.decay)
    }

    fn positions(&mut self) -> Vec<f64> {
        let batch = self.setup.protocol.batch;
        (0..batch).map(|_| self.state.generator.uniform()).collect()
    }

    /// One alignment step on the stored latents.
    fn step(&mut self) -> Result<()> {
        let proportions = self.state.proportions.floored();
        for _ in 0..self.setup.protocol.critic_steps {
            let numbers = self.state.critic_batches.draw(&mut self.state.generator);
            self.critic_step(&numbers, &proportions)?;
        }
        let numbers = self.state.batches.draw(&mut self.state.generator);
        self.map_step(&numbers, &proportions)?;
        let class_weights = class_ratios(&proportions, &self.source_proportions, f64::INFINITY);
        let step = ClassifierStep {
            objective: self.objective(&class_weights),
            adam: self.adam(1),
        };
        let batch = Batch {
            source: &numbers.source,
            target: &numbers.target,
        };
        self.engine
            .classifier_step(batch, &step, &mut self.state.generator)?;
        Ok(())
    }

    /// One alignment step in which every batch is encoded anew, and encoder and target classifier learn together.
    fn step_with_encoder(&mut self) -> Result<()> {
        let proportions = self.state.proportions.floored();
        let all: Vec<u32> = (0..self.setup.protocol.batch as u32).collect();
        let whole = Numbers {
            source: all.clone(),
            target: all,
        };
        for _ in 0..self.setup.protocol.critic_steps {
            let numbers = self.state.critic_batches.draw(&mut self.state.generator);
            self.encode_batch(&numbers)?;
            self.critic_step(&whole, &proportions)?;
        }
        let numbers = self.state.batches.draw(&mut self.state.generator);
        self.encode_batch(&numbers)?;
        self.map_step(&whole, &proportions)?;
        let class_weights = class_ratios(&proportions, &self.source_proportions, f64::INFINITY);
        let step = EncoderStep {
            objective: self.objective(&class_weights),
            through_map: self.setup.protocol.encoder_learns_through_map,
            encoder_adam: self.adam(0),
            classifier_adam: self.adam(1),
        };
        self.engine
            .encoder_step(self.gathered.borrow()?, &step, &mut self.state.generator)?;
        Ok(())
    }

    /// Encodes a batch of both domains in training mode and replaces the buffers with it.
    fn encode_batch(&mut self, numbers: &Numbers) -> Result<()> {
        self.gathered.gather(self.setup.task, numbers);
        let (batch, generator) = (self.gathered.borrow()?, &mut self.state.generator);
        self.engine
            .invariant_step(batch, &InvariantStep::Encode, generator)?;
        Ok(())
    }

    fn critic_step(&mut self, numbers: &Numbers, proportions: &[f64]) -> Result<()> {
        let positions = self.positions();
        let step = CriticStep {
            proportions,
            positions: &positions,
            penalty_weight: PENALTY_WEIGHT,
            map_follows: false,
            adam: self.adam(2),
        };
        let batch = Batch {
            source: &numbers.source,
            target: &numbers.target,
        };
        self.engine.critic_step(batch, &step)?;
        Ok(())
    }

    fn map_step(&mut self, numbers: &Numbers, proportions: &[f64]) -> Result<()> {
        let step = MapStep {
            proportions,
            transport_weight: self.setup.protocol.transport_weight,
            adam: self.adam(3),
        };
        let batch = Batch {
            source: &numbers.source,
            target: &numbers.target,
        };
        let report = self.engine.map_step(batch, &step)?;
        self.state.transport_cost = report.transport_cost / self.setup.task.classes as f64;
        self.map_reports.push(report);
        Ok(())
    }

    fn objective<'w>(&self, class_weights: &'w [f64]) -> ClassifierObjective<'w> {
        let protocol = self.setup.protocol;
        match self.stage {
            Stage::Alignment => ClassifierObjective {
                class_weights,
                cross_entropy_weight: 1.0,
                entropy_weight: 0.0,
                diversity: Diversity::None,
            },
            Stage::Classifier | Stage::Encoder => ClassifierObjective {
                class_weights,
                cross_entropy_weight: protocol.cross_entropy_weight,
                entropy_weight: protocol.entropy_weight,
                diversity: Diversity::MarginalEntropy {
                    weight: protocol.diversity_weight,
                },
            },
        }
    }
}

/// How many steps an alignment takes, and how long: a step with the encoder in training takes about 30 times as long.
struct Work {
    epoch_steps: usize,
    light: f64,
    heavy: f64,
}

const HEAVY_WEIGHT: f64 = 30.0;

impl Work {
    fn new(setup: &Setup<'_>, stage: Stage) -> Self {
        let protocol = setup.protocol;
        let epoch_steps = setup.task.source.count() / protocol.batch;
        let all = (protocol.epochs - protocol.alignment_epoch + 1) * epoch_steps;
        let heavy = match stage {
            Stage::Encoder => (protocol.epochs - protocol.encoder_epoch + 1) * epoch_steps,
            Stage::Alignment | Stage::Classifier => 0,
        };
        Self {
            epoch_steps,
            light: (all - heavy) as f64,
            heavy: heavy as f64,
        }
    }

    fn steps(&self) -> usize {
        (self.light + self.heavy) as usize
    }

    /// The share of the time that is over after so many steps.
    fn fraction(&self, done: usize) -> f64 {
        let light = (done as f64).min(self.light);
        let heavy = done as f64 - light;
        (light + HEAVY_WEIGHT * heavy) / (self.light + HEAVY_WEIGHT * self.heavy)
    }
}
