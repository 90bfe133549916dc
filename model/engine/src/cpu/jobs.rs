//! How [`CpuEngine`] fills the team's arguments and runs its jobs.

use super::{
    CpuEngine,
    buffers::refill,
    chain::{self, Chain},
    state::Arguments,
    steps,
    sums::ChainSums,
};
use crate::{
    Architecture, Inputs, Result,
    architecture::Network,
    checks,
    engine::{Batch, Evaluation, RawBatch},
    optimiser::Adam,
    weights,
};

impl CpuEngine {
    /// Checks a batch, copies it and its labels to the arguments, and counts its classes.
    pub(super) fn set_batch(&mut self, batch: &Batch<'_>) -> Result<()> {
        let arguments = &mut *self.team.state().arguments.write();
        let latent = self.team.state().architecture.latent;
        let target_rows = arguments.target.latents.len() / latent;
        checks::batch(batch, arguments.source.labels.len(), target_rows)?;
        refill(&mut arguments.source_rows, batch.source.iter().copied());
        refill(&mut arguments.target_rows, batch.target.iter().copied());
        let labels = &arguments.source.labels;
        let labels = batch.source.iter().map(|row| labels[*row as usize]);
        refill(&mut arguments.labels, labels);
        weights::class_counts(arguments.labels.iter().copied(), &mut self.counts);
        Ok(())
    }

    /// Sets omega and 1 / n_k of the batch that [`Self::set_batch`] has counted.
    pub(super) fn set_source_weights(&mut self, proportions: &[f64]) -> Result<()> {
        let arguments = &mut *self.team.state().arguments.write();
        arguments.source_weights.resize(self.counts.len(), 0.0);
        weights::source_weights(proportions, &self.counts, &mut arguments.source_weights)?;
        let inverse = |count: &f64| if *count > 0.0 { 1.0 / count } else { 0.0 };
        let cost = self.counts.iter().map(inverse);
        refill(&mut arguments.cost_weights, cost);
        Ok(())
    }

    /// Normalises the cross-entropy's class weights over the batch that has been counted.
    pub(super) fn set_class_weights(&mut self, class_weights: &[f64]) -> Result<()> {
        let arguments = &mut *self.team.state().arguments.write();
        let weights = &mut arguments.objective.class_weights;
        weights.resize(self.counts.len(), 0.0);
        weights::normalised_ratios(class_weights, &self.counts, weights)
    }

    /// Runs a step's chain and returns the sum of the members' sums.
    pub(super) fn run_chain(&mut self, chain: fn(Chain<'_>)) -> ChainSums {
        self.map_is_kept = false;
        self.team.state().networks.save_running_statistics();
        self.team.state().arguments.write().chain = Some(chain);
        self.team.run(chain::run);
        let mut sums = ChainSums::default();
        for scratch in &self.team.state().scratch {
            sums.add(&scratch.lock().sums);
        }
        sums
    }

    /// Checks that the loss is finite. If not, restores the running statistics that the chain has changed.
    pub(super) fn check_loss(&self, step: &'static str, loss: f64) -> Result<()> {
        let checked = checks::finite_loss(step, loss);
        if checked.is_err() {
            self.team.state().networks.restore_running_statistics();
        }
        checked
    }

    /// Updates networks by the gradients of the last chain.
    pub(super) fn update(&mut self, updates: &[(Network, Adam)]) {
        {
            let arguments = &mut *self.team.state().arguments.write();
            arguments.updates.clear();
            for (network, adam) in updates {
                let steps = &mut self.steps[*network as usize];
                arguments
                    .updates
                    .push((*network, adam.coefficients(*steps)));
                *steps += 1;
            }
        }
        self.team.run(steps::update);
    }

    /// Runs an evaluation of `Arguments::inputs` and replaces `out` by its rows, in order.
    pub(super) fn run_evaluation(&mut self, evaluation: Evaluation, out: &mut Vec<f32>) {
        self.map_is_kept = false;
        self.team.state().arguments.write().evaluation = evaluation;
        self.team.run(steps::evaluate);
        out.clear();
        for scratch in &self.team.state().scratch {
            out.extend_from_slice(&scratch.lock().output);
        }
    }
}

// === impl Arguments ===

impl Arguments {
    pub(super) fn set_inputs(
        &mut self,
        inputs: &Inputs<'_>,
        labels: &[u32],
        architecture: &Architecture,
    ) {
        self.inputs.copy(inputs, architecture);
        refill(&mut self.labels, labels.iter().copied());
    }

    pub(super) fn set_raw_batch(&mut self, batch: &RawBatch<'_>, architecture: &Architecture) {
        self.set_inputs(&batch.source, batch.labels, architecture);
        self.target_inputs.copy(&batch.target, architecture);
    }
}
