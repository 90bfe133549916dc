//! An engine on candle's tensors and autograd: the reference for tests of the CPU engine, and the engine for a GPU
//! (feature `cuda`: type-checked and linked, not yet run on a GPU).
//!
//! Parameters, optimiser state, what was saved and both buffers stay on the device. A step uploads row numbers, row
//! weights and dropout masks, and downloads a few scalars. Networks are candle-nn's layers;
//! `docs/decisions/0011-candle-nn.md` says which parts are ours, and why.

mod batch;
mod convolution;
mod device;
mod networks;
mod objectives;
mod parameters;
mod pass;
mod state;
mod steps;

use candle_core::{Device, Tensor};

#[cfg(feature = "cuda")]
pub(crate) use device::gpus;
pub use device::{Precision, device};
pub(crate) use state::State;

use self::{
    batch::Buffers,
    device::Place,
    pass::{Mode, Pass},
};
use crate::{
    Architecture, Engine, Generator, Inputs, NamedTensors, Result, Rows,
    architecture::Network,
    checks,
    engine::{
        Batch, ClassifierReport, ClassifierStep, CriticReport, CriticStep, EncoderReport,
        EncoderStep, Evaluation, Head, HostCopies, MapReport, MapStep, PretrainReport,
        PretrainStep, RawBatch, Saved,
    },
};

/// An [`Engine`] with its state on one candle device.
#[derive(Debug)]
pub struct CandleEngine {
    architecture: Architecture,
    place: Place,
    state: State,
    buffers: Buffers,
}

// === impl CandleEngine ===

impl CandleEngine {
    /// Makes an engine with `parameters` (see [`Engine::import`]) and empty buffers.
    pub fn new(
        architecture: Architecture,
        parameters: &NamedTensors,
        precision: Precision,
        device: Device,
    ) -> Result<Self> {
        architecture.validate()?;
        let place = Place::new(device, precision);
        Ok(Self {
            state: State::import(&architecture, parameters, &place)?,
            buffers: Buffers::empty(architecture.latent, &place)?,
            architecture,
            place,
        })
    }

    /// A pass that can update the parameters of `trained`.
    fn pass(&self, trained: &[Network]) -> Result<Pass<'_>> {
        Pass::new(&self.architecture, &self.place, &self.state, trained)
    }

    /// Takes over what a step has changed.
    fn apply(&mut self, update: State) {
        self.state.values.extend(update.values);
        self.state.moments.extend(update.moments);
        self.state.steps.extend(update.steps);
    }

    /// Replaces `rows` by a tensor's numbers, in single precision.
    fn read(&self, tensor: &Tensor, rows: &mut Vec<f32>) -> Result<()> {
        *rows = self.place.download(tensor)?.to_f32();
        Ok(())
    }

    fn upload(&self, rows: Rows<'_>) -> Result<Tensor> {
        self.place
            .upload(rows.values(), &[rows.count(), rows.width()])
    }
}

impl Engine for CandleEngine {
    fn architecture(&self) -> &Architecture {
        &self.architecture
    }

    fn set_source(&mut self, latents: Rows<'_>, labels: &[u32]) -> Result<()> {
        latents.check("source latents", self.architecture.latent)?;
        checks::length("labels", labels.len(), latents.count())?;
        checks::labels(labels, self.architecture.classes)?;
        self.buffers.set_source(latents, labels, &self.place)
    }

    fn set_target(&mut self, first: usize, latents: Rows<'_>) -> Result<()> {
        latents.check("target latents", self.architecture.latent)?;
        self.buffers.set_target(first, latents, &self.place)
    }

    fn read_target(&self, latents: &mut Vec<f32>) -> Result<()> {
        *latents = self.buffers.read_target(&self.place)?;
        Ok(())
    }

    fn critic_step(&mut self, batch: Batch<'_>, step: &CriticStep<'_>) -> Result<CriticReport> {
        steps::critic(self, &batch, step)
    }

    fn map_step(&mut self, batch: Batch<'_>, step: &MapStep<'_>) -> Result<MapReport> {
        steps::map(self, &batch, step)
    }

    fn classifier_step(
        &mut self,
        batch: Batch<'_>,
        step: &ClassifierStep<'_>,
        generator: &mut Generator,
    ) -> Result<ClassifierReport> {
        steps::classifier(self, &batch, step, generator)
    }

    fn encoder_step(
        &mut self,
        batch: RawBatch<'_>,
        step: &EncoderStep<'_>,
        generator: &mut Generator,
    ) -> Result<EncoderReport> {
        steps::encoder(self, &batch, step, generator)
    }

    fn pretrain_step(
        &mut self,
        inputs: Inputs<'_>,
        labels: &[u32],
        step: &PretrainStep<'_>,
        generator: &mut Generator,
    ) -> Result<PretrainReport> {
        steps::pretrain(self, &inputs, labels, step, generator)
    }

    fn evaluate(&mut self, what: Evaluation, rows: Inputs<'_>, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        let count = match (what, &rows) {
            (Evaluation::Encode, inputs) => inputs.count(&self.architecture),
            (_, Inputs::Dense(latents)) => latents.count(),
            (_, Inputs::Fields(_)) => 0,
        };
        if count == 0 {
            return Ok(());
        }
        let mut pass = self.pass(&[])?;
        let latents = match rows {
            Inputs::Dense(latents) if what != Evaluation::Encode => self.upload(latents)?,
            inputs => pass.features(&inputs)?,
        };
        let found = match what {
            Evaluation::Encode => pass.encode(latents, Mode::Evaluation)?,
            Evaluation::Transport => pass.map(&latents, Mode::Evaluation)?.latents,
            Evaluation::Score(head) => {
                let network = match head {
                    Head::Source => Network::SourceClassifier,
                    Head::Target => Network::TargetClassifier,
                };
                pass.evaluate_classifier(network, &latents)?.exp()?
            }
        };
        self.read(&found, out)
    }

    fn save(&self) -> Result<Saved> {
        Ok(Saved::new(self.state.clone()))
    }

    fn restore(&mut self, saved: &Saved) -> Result<()> {
        self.state = on_device(saved)?.clone();
        Ok(())
    }

    fn saved_tensors(&self, saved: &Saved, network: Option<Network>) -> Result<NamedTensors> {
        let state = on_device(saved)?;
        match network {
            None => state.export(&self.place),
            Some(network) => state.export_network(network, &self.place),
        }
    }

    fn to_saved(&self, tensors: &NamedTensors) -> Result<Saved> {
        let state = State::import(&self.architecture, tensors, &self.place)?;
        Ok(Saved::new(state))
    }

    fn first_non_finite(&self, saved: &Saved) -> Result<Option<String>> {
        on_device(saved)?.first_non_finite(&self.place)
    }

    fn host_copies(&self) -> HostCopies {
        self.place.host_copies()
    }
}

/// What a candle engine has saved; its tensors are immutable, so that a clone shares them.
fn on_device(saved: &Saved) -> Result<&State> {
    saved.state("candle")
}
