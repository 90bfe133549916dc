//! Trains encoder and source classifier by cross-entropy on the source. Batches hold both domains, so that the
//! encoder's batch normalisation sees the mixture.

use anyhow::Result;
use ostar_engine::{
    Engine, Generator, HostTensor, NamedTensors,
    architecture::Network,
    copy_source_classifier,
    cpu::{Adversary, CpuEngine, InvariantStep},
    engine::PretrainStep,
    initial_parameters,
    optimiser::Adam,
};

use super::{Setup, Watch, batches::Gathered, checkpoints::TrainingState};

/// The gain that [`initial_parameters`] gives the map's weights.
const INITIAL_GAIN: f64 = 0.02;

/// Weights after pretraining, which every method starts from.
#[derive(Debug, Clone)]
pub struct Pretrained {
    tensors: NamedTensors,
}

impl Pretrained {
    /// An engine with these weights, f_N a copy of f_S, and fresh optimisers.
    pub fn engine(&self, setup: &Setup<'_>) -> Result<CpuEngine> {
        let architecture = setup.protocol.architecture.clone();
        Ok(CpuEngine::new(architecture, &self.tensors, setup.threads)?)
    }

    /// The same weights, with those of the map rescaled to another gain.
    pub fn with_map_gain(&self, gain: f64) -> Self {
        let mut tensors = self.tensors.clone();
        scale_map(&mut tensors, gain / INITIAL_GAIN);
        Self { tensors }
    }

    /// Trained encoder and source classifier, and fresh map and critic.
    fn new(setup: &Setup<'_>, mut trained: NamedTensors, generator: &mut Generator) -> Self {
        trained.retain(|name, _| !name.starts_with("adam."));
        copy_source_classifier(&mut trained);
        let fresh = initial_parameters(&setup.protocol.architecture, generator);
        for (name, tensor) in fresh {
            let kept = [Network::Map, Network::Critic].map(Network::prefix);
            if kept.iter().any(|prefix| name.starts_with(prefix)) {
                trained.insert(name, tensor);
            }
        }
        scale_map(&mut trained, setup.protocol.map_gain / INITIAL_GAIN);
        Self { tensors: trained }
    }
}

/// Pretrains for the epochs before alignment. The checkpoint of the last epoch stays: who continues from it has
/// nothing left to train.
pub fn pretrain(setup: &Setup<'_>, watch: &mut Watch<'_>) -> Result<Pretrained> {
    let (task, protocol) = (setup.task, setup.protocol);
    task.check(protocol.batch)?;
    let mut generator = Generator::new(setup.seed);
    let parameters = initial_parameters(&protocol.architecture, &mut generator);
    let mut engine = CpuEngine::new(protocol.architecture.clone(), &parameters, setup.threads)?;
    let mut state = TrainingState::new(task, protocol.batch, 1, generator);
    if let Some((tensors, saved)) = watch.checkpoints.load()? {
        engine.import(&tensors)?;
        state = saved;
    }
    let mut gathered = Gathered::default();
    let class_weights = vec![1.0; task.classes];
    let [encoder_rate, classifier_rate] = protocol.pretraining_rates;
    let step = InvariantStep::Encoder {
        step: PretrainStep {
            class_weights: &class_weights,
            encoder_adam: Adam::with_rate(encoder_rate),
            classifier_adam: Adam::with_rate(classifier_rate),
        },
        adversary: Adversary::None,
        proportions: &[],
    };
    while state.epoch < protocol.alignment_epoch {
        for _ in 0..task.source.count() / protocol.batch {
            let numbers = state.batches.draw(&mut state.generator);
            gathered.gather(task, &numbers);
            engine.invariant_step(gathered.borrow()?, &step, &mut state.generator)?;
        }
        (watch.progress)(state.epoch as f64 / (protocol.alignment_epoch - 1) as f64);
        state.epoch += 1;
        if state.epoch == protocol.alignment_epoch {
            watch.checkpoints.save(&engine.export()?, &state)?;
        } else {
            watch.checkpoints.save_if_due(|| engine.export(), &state)?;
        }
    }
    let trained = engine.export()?;
    Ok(Pretrained::new(setup, trained, &mut state.generator))
}

fn scale_map(tensors: &mut NamedTensors, factor: f64) {
    let prefix = format!("{}.", Network::Map.prefix());
    for (name, tensor) in tensors.iter_mut() {
        let linear = name.starts_with(&prefix) && name.contains(".fc") && name.ends_with("weight");
        if linear && factor != 1.0 {
            let scaled = tensor
                .to_f64()
                .iter()
                .map(|v| (v * factor) as f32)
                .collect();
            *tensor = HostTensor::f32(tensor.shape.clone(), scaled);
        }
    }
}
