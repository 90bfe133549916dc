//! An engine on candle's tensors and autograd: the reference for tests of the CPU engine, and the engine for a GPU
//! (feature `cuda`: type-checked and linked, not yet run on a GPU).
//!
//! Parameters, optimiser state, what was saved and both buffers stay on the device. A step uploads row numbers, row
//! weights and dropout masks, and downloads a few scalars. Networks are candle-nn's layers;
//! `docs/decisions/0011-candle-nn.md` says which parts are ours, and why.

mod batch;
mod convolution;
mod device;
mod engine;
mod networks;
mod objectives;
mod pass;
mod state;

use candle_core::{Device, Tensor};

#[cfg(feature = "cuda")]
pub(crate) use device::gpus;
pub use device::{Precision, device};
pub(crate) use state::State;

use self::{batch::Buffers, device::Place, pass::Pass};
use crate::{Architecture, NamedTensors, Result, Rows, architecture::Network};

/// An [`Engine`](crate::Engine) with its state on one candle device.
#[derive(Debug)]
pub struct CandleEngine {
    architecture: Architecture,
    place: Place,
    state: State,
    buffers: Buffers,
}

// === impl CandleEngine ===

impl CandleEngine {
    /// Makes an engine with `parameters` (see [`Engine::import`](crate::Engine::import)) and empty buffers.
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
