//! [`CpuEngine`]: checks a step's arguments, runs its jobs and reports.

use super::{
    buffers::refill,
    chain::Chain,
    gemm::Product,
    state::State,
    steps::MAX_MEMBERS,
    sums::ClassifierSums,
    team::{Member, Team},
};
use crate::{
    Architecture, Engine, Error, Generator, Inputs, NamedTensors, Result, Rows,
    architecture::Network,
    checks,
    engine::{
        Batch, ClassifierReport, ClassifierStep, CriticReport, CriticStep, EncoderReport,
        EncoderStep, Evaluation, MapReport, MapStep, PretrainReport, PretrainStep, RawBatch, Saved,
        first_non_finite, of_network,
    },
    parameters::{check_import, steps_name, steps_tensor},
    weights,
};

/// The default engine: single precision, on a fixed number of threads.
pub struct CpuEngine {
    pub(super) team: Team<State>,
    /// Optimiser steps taken, by network.
    pub(super) steps: [u64; 5],
    /// How many source rows of the current batch each class has.
    pub(super) counts: Vec<f64>,
    /// Whether members hold the map's blocks for the batch of the last critic step.
    pub(super) map_is_kept: bool,
}

impl CpuEngine {
    /// Makes an engine with `parameters` (see [`Engine::import`]) on `threads` threads. The caller's thread is one
    /// of them.
    pub fn new(
        architecture: Architecture,
        parameters: &NamedTensors,
        threads: usize,
    ) -> Result<Self> {
        architecture.validate()?;
        if !(1..=MAX_MEMBERS).contains(&threads) {
            return Err(Error::setting(
                "threads",
                format!("is {threads}, expected a number from 1 to {MAX_MEMBERS}"),
            ));
        }
        let counts = vec![0.0; architecture.classes];
        let state = |members: &[Member]| State::new(architecture, members);
        let team = Team::new(threads, state).map_err(|error| {
            Error::setting(
                "threads",
                format!("cannot start {threads} threads: {error}"),
            )
        })?;
        let mut engine = Self {
            team,
            steps: [0; 5],
            counts,
            map_is_kept: false,
        };
        engine.import(parameters)?;
        Ok(engine)
    }

    /// Starts or stops recording the sizes of every thread's matrix products, for benchmarks.
    pub fn record_products(&mut self, record: bool) {
        for scratch in &self.team.state().scratch {
            scratch.lock().workspace.multiplier.record = record;
        }
    }

    /// Takes the products recorded so far, one list for each thread.
    pub fn take_products(&mut self) -> Vec<Vec<Product>> {
        let scratch = self.team.state().scratch.iter();
        scratch
            .map(|scratch| std::mem::take(&mut scratch.lock().workspace.multiplier.products))
            .collect()
    }

    fn state(&self) -> &State {
        self.team.state()
    }

    /// A critic step with the target's mean multiplied by `target_weight`.
    pub(super) fn critic_step_at_target_weight(
        &mut self,
        batch: Batch<'_>,
        step: &CriticStep<'_>,
        target_weight: f64,
    ) -> Result<CriticReport> {
        checks::per_class("proportion", step.proportions, self.counts.len())?;
        checks::positions(step.positions, batch.source.len())?;
        checks::weight("penalty_weight", step.penalty_weight)?;
        step.adam.validate()?;
        self.set_batch(&batch)?;
        self.set_source_weights(step.proportions)?;
        {
            let arguments = &mut *self.team.state().arguments.write();
            refill(
                &mut arguments.positions,
                step.positions.iter().map(|p| *p as f32),
            );
            arguments.penalty_weight = step.penalty_weight;
            arguments.keep_map = step.map_follows;
            arguments.target_weight = target_weight;
        }
        let sums = self.run_chain(|chain| chain.critic()).critic;
        let distance = sums.source - sums.target;
        // The penalty is taken at three points for each row.
        let penalty = sums.penalty / (3 * batch.source.len()) as f64;
        let loss = -distance + step.penalty_weight * penalty;
        self.check_loss("critic", loss)?;
        self.update(&[(Network::Critic, step.adam)]);
        self.map_is_kept = step.map_follows;
        Ok(CriticReport {
            loss,
            distance,
            penalty,
        })
    }

    /// A step of encoder and source classifier on the inputs in the arguments. Returns the cross-entropy.
    pub(super) fn source_step(
        &mut self,
        name: &'static str,
        chain: fn(Chain<'_>),
        labels: &[u32],
        step: &PretrainStep<'_>,
        generator: &mut Generator,
    ) -> Result<f64> {
        checks::per_class("class weight", step.class_weights, self.counts.len())?;
        step.encoder_adam.validate()?;
        step.classifier_adam.validate()?;
        weights::class_counts(labels.iter().copied(), &mut self.counts);
        self.set_class_weights(step.class_weights)?;
        let state = self.team.state();
        state
            .arguments
            .write()
            .draw_dropout_masks(&state.architecture, labels.len(), 1, generator);
        let loss = self.run_chain(chain).source_cross_entropy;
        self.check_loss(name, loss)?;
        self.update(&[
            (Network::Encoder, step.encoder_adam),
            (Network::SourceClassifier, step.classifier_adam),
        ]);
        Ok(loss)
    }

    fn classifier_report(&self, sums: &ClassifierSums, rows: usize) -> ClassifierReport {
        let arguments = self.state().arguments.read();
        let objective = &arguments.objective;
        let entropy = sums.entropy / rows as f64;
        ClassifierReport {
            loss: objective.cross_entropy_weight * sums.cross_entropy
                + objective.entropy_weight * entropy
                + objective.diversity().signed_weight() * sums.diversity,
            cross_entropy: sums.cross_entropy,
            entropy,
            diversity: sums.diversity,
        }
    }
}

impl Engine for CpuEngine {
    fn architecture(&self) -> &Architecture {
        &self.state().architecture
    }

    fn set_source(&mut self, latents: Rows<'_>, labels: &[u32]) -> Result<()> {
        latents.check("source latents", self.architecture().latent)?;
        checks::length("source labels", labels.len(), latents.count())?;
        checks::labels(labels, self.architecture().classes)?;
        self.map_is_kept = false;
        let source = &mut self.team.state().arguments.write().source;
        source.latents.resize(latents.values().len(), 0.0);
        latents.values().copy_f32(0, &mut source.latents);
        refill(&mut source.labels, labels.iter().copied());
        Ok(())
    }

    fn set_target(&mut self, first: usize, latents: Rows<'_>) -> Result<()> {
        let width = self.architecture().latent;
        latents.check("target latents", width)?;
        let target = &mut self.team.state().arguments.write().target.latents;
        checks::target_start(first, target.len() / width)?;
        let end = (first + latents.count()) * width;
        if target.len() < end {
            target.resize(end, 0.0);
        }
        latents
            .values()
            .copy_f32(0, &mut target[first * width..end]);
        Ok(())
    }

    fn read_target(&self, latents: &mut Vec<f32>) -> Result<()> {
        latents.clone_from(&self.team.state().arguments.read().target.latents);
        Ok(())
    }

    fn critic_step(&mut self, batch: Batch<'_>, step: &CriticStep<'_>) -> Result<CriticReport> {
        self.critic_step_at_target_weight(batch, step, 1.0)
    }

    fn map_step(&mut self, batch: Batch<'_>, step: &MapStep<'_>) -> Result<MapReport> {
        checks::per_class("proportion", step.proportions, self.counts.len())?;
        checks::weight("transport_weight", step.transport_weight)?;
        step.adam.validate()?;
        let is_kept =
            self.map_is_kept && self.team.state().arguments.read().source_rows == batch.source;
        self.set_batch(&batch)?;
        self.set_source_weights(step.proportions)?;
        {
            let arguments = &mut *self.team.state().arguments.write();
            arguments.transport_weight = step.transport_weight;
            arguments.map_is_kept = is_kept;
        }
        let sums = self.run_chain(|chain| chain.map()).map;
        let distance = sums.source - sums.target;
        let loss = distance + step.transport_weight * sums.transport_cost;
        self.check_loss("map", loss)?;
        self.update(&[(Network::Map, step.adam)]);
        Ok(MapReport {
            loss,
            distance,
            transport_cost: sums.transport_cost,
        })
    }

    fn classifier_step(
        &mut self,
        batch: Batch<'_>,
        step: &ClassifierStep<'_>,
        generator: &mut Generator,
    ) -> Result<ClassifierReport> {
        checks::objective(&step.objective, self.counts.len())?;
        step.adam.validate()?;
        self.set_batch(&batch)?;
        self.set_class_weights(step.objective.class_weights)?;
        let rows = batch.source.len();
        let state = self.team.state();
        {
            let arguments = &mut *state.arguments.write();
            arguments.objective.copy(&step.objective);
            let forwards = 1 + usize::from(arguments.objective.uses_target);
            arguments.draw_dropout_masks(&state.architecture, rows, forwards, generator);
        }
        let sums = self.run_chain(|chain| chain.classifier());
        let report = self.classifier_report(&sums.classifier, rows);
        self.check_loss("classifier", report.loss)?;
        self.update(&[(Network::TargetClassifier, step.adam)]);
        Ok(report)
    }

    fn encoder_step(
        &mut self,
        batch: RawBatch<'_>,
        step: &EncoderStep<'_>,
        generator: &mut Generator,
    ) -> Result<EncoderReport> {
        let rows = checks::raw_batch(&batch, self.architecture())?;
        checks::objective(&step.objective, self.counts.len())?;
        step.encoder_adam.validate()?;
        step.classifier_adam.validate()?;
        weights::class_counts(batch.labels.iter().copied(), &mut self.counts);
        self.set_class_weights(step.objective.class_weights)?;
        let state = self.team.state();
        {
            let arguments = &mut *state.arguments.write();
            arguments.set_raw_batch(&batch, &state.architecture);
            arguments.objective.copy(&step.objective);
            arguments.through_map = step.through_map;
            let forwards = 1 + usize::from(arguments.objective.uses_target);
            arguments.draw_dropout_masks(&state.architecture, rows, forwards, generator);
        }
        let sums = self.run_chain(|chain| chain.encoder());
        let classifier = self.classifier_report(&sums.classifier, rows);
        let loss = classifier.loss + sums.source_cross_entropy;
        self.check_loss("encoder", loss)?;
        self.update(&[
            (Network::Encoder, step.encoder_adam),
            (Network::TargetClassifier, step.classifier_adam),
        ]);
        Ok(EncoderReport {
            loss,
            classifier,
            source_cross_entropy: sums.source_cross_entropy,
        })
    }

    fn pretrain_step(
        &mut self,
        inputs: Inputs<'_>,
        labels: &[u32],
        step: &PretrainStep<'_>,
        generator: &mut Generator,
    ) -> Result<PretrainReport> {
        checks::labelled(&inputs, labels, self.architecture())?;
        let state = self.team.state();
        let mut arguments = state.arguments.write();
        arguments.set_inputs(&inputs, labels, &state.architecture);
        drop(arguments);
        let chain = |chain: Chain<'_>| chain.pretrain();
        let loss = self.source_step("pretraining", chain, labels, step, generator)?;
        Ok(PretrainReport { loss })
    }

    fn evaluate(&mut self, what: Evaluation, rows: Inputs<'_>, out: &mut Vec<f32>) -> Result<()> {
        let state = self.team.state();
        let mut arguments = state.arguments.write();
        arguments.inputs.copy(&rows, &state.architecture);
        drop(arguments);
        self.run_evaluation(what, out);
        Ok(())
    }

    fn save(&self) -> Result<Saved> {
        let mut tensors = NamedTensors::new();
        for network in Network::ALL {
            let steps = self.steps[network as usize];
            self.state()
                .networks
                .export(network, steps > 0, &mut tensors);
            if steps > 0 {
                tensors.insert(steps_name(network), steps_tensor(steps));
            }
        }
        Ok(Saved::new(tensors))
    }

    fn to_saved(&self, tensors: &NamedTensors) -> Result<Saved> {
        check_import(self.architecture(), tensors)?;
        Ok(Saved::new(tensors.clone()))
    }

    fn saved_tensors(&self, saved: &Saved, network: Option<Network>) -> Result<NamedTensors> {
        let tensors = on_host(saved)?;
        Ok(match network {
            None => tensors.clone(),
            Some(network) => of_network(tensors, network),
        })
    }

    fn first_non_finite(&self, saved: &Saved) -> Result<Option<String>> {
        Ok(first_non_finite(on_host(saved)?))
    }

    fn restore(&mut self, saved: &Saved) -> Result<()> {
        let checked = check_import(self.architecture(), on_host(saved)?)?;
        self.map_is_kept = false;
        self.state().networks.import(&checked.parameters);
        for network in Network::ALL {
            self.steps[network as usize] = checked.steps.get(&network).copied().unwrap_or(0);
        }
        Ok(())
    }
}

fn on_host(saved: &Saved) -> Result<&NamedTensors> {
    saved.state("CPU")
}
