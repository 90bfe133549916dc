//! [`CpuEngine`]: checks arguments, hands them to the team, collects reports.

use super::{
    classifier_steps,
    gemm::Product,
    state::{Arguments, Evaluation, State},
    steps::{self, MAX_MEMBERS},
    team::{Job, Team},
};
use crate::{
    Architecture, Engine, Error, Generator, Inputs, NamedTensors, Result, Rows,
    architecture::Network,
    checks,
    engine::{
        Batch, ClassifierReport, ClassifierStep, CriticReport, CriticStep, EncoderReport,
        EncoderStep, Head, MapReport, MapStep, PretrainReport, PretrainStep, RawBatch,
    },
    optimiser::Adam,
    parameters::{check_import, steps_name, steps_tensor},
    weights,
};

/// The engine on flat f32 buffers.
pub struct CpuEngine {
    pub(super) team: Team<State>,
    /// Optimiser steps taken, by network.
    steps: [u64; 5],
    /// Networks that the last step moved.
    moved: Vec<Network>,
    /// Rows of each class in the batch at hand.
    pub(super) counts: Vec<f64>,
}

impl CpuEngine {
    /// An engine with `parameters` (see [`Engine::import`]) on `threads` threads, the caller's among
    /// them.
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
        let team = Team::new(threads, State::new(architecture, threads)).map_err(|error| {
            Error::setting(
                "threads",
                format!("cannot start {threads} threads: {error}"),
            )
        })?;
        let mut engine = Self {
            team,
            steps: [0; 5],
            moved: Vec::with_capacity(2),
            counts,
        };
        engine.import(parameters)?;
        Ok(engine)
    }

    /// Starts or stops to log the matrix products of every thread.
    pub fn record_products(&mut self, record: bool) {
        for scratch in &self.team.state().scratch {
            scratch.lock().tools.multiplier.record = record;
        }
    }

    /// The products logged so far, thread by thread, and empties the logs.
    pub fn take_products(&mut self) -> Vec<Vec<Product>> {
        let scratch = self.team.state().scratch.iter();
        scratch
            .map(|scratch| std::mem::take(&mut scratch.lock().tools.multiplier.products))
            .collect()
    }

    fn state(&self) -> &State {
        self.team.state()
    }

    /// Puts the batch and its labels into the arguments and counts its classes.
    pub(super) fn place_batch(&mut self, batch: &Batch<'_>) -> Result<()> {
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

    /// omega and 1 / n_k of the batch at hand.
    pub(super) fn place_source_weights(&mut self, proportions: &[f64]) -> Result<()> {
        let arguments = &mut *self.team.state().arguments.write();
        arguments.source_weights.resize(self.counts.len(), 0.0);
        weights::source_weights(proportions, &self.counts, &mut arguments.source_weights)?;
        let cost = self.counts.iter().map(|count| match *count > 0.0 {
            true => 1.0 / count,
            false => 0.0,
        });
        refill(&mut arguments.cost_weights, cost);
        Ok(())
    }

    pub(super) fn place_class_weights(&mut self, class_weights: &[f64]) -> Result<()> {
        let arguments = &mut *self.team.state().arguments.write();
        let weights = &mut arguments.objective.class_weights;
        weights.resize(self.counts.len(), 0.0);
        weights::normalised_ratios(class_weights, &self.counts, weights)
    }

    /// Runs a step's chain and gives the members' reports, added up.
    pub(super) fn run(&mut self, chain: Job<State>) -> [f64; 4] {
        self.team.state().networks.save_running_statistics();
        self.team.run(chain);
        let mut sums = [0.0; 4];
        for scratch in &self.state().scratch {
            for (sum, part) in sums.iter_mut().zip(scratch.lock().report) {
                *sum += part;
            }
        }
        sums
    }

    /// Refuses a loss that is not a number, and takes back what the chain has moved.
    pub(super) fn accept(&self, step: &'static str, loss: f64) -> Result<()> {
        let accepted = checks::finite_loss(step, loss);
        if accepted.is_err() {
            self.state().networks.restore_running_statistics();
        }
        accepted
    }

    /// Moves networks along the gradients of the chain that was run.
    pub(super) fn update(&mut self, updates: &[(Network, Adam)]) {
        {
            let arguments = &mut *self.team.state().arguments.write();
            arguments.updates.clear();
            self.moved.clear();
            for (network, adam) in updates {
                let steps = &mut self.steps[*network as usize];
                arguments
                    .updates
                    .push((*network, adam.coefficients(*steps)));
                *steps += 1;
                self.moved.push(*network);
            }
        }
        self.team.run(steps::update);
    }

    fn evaluate(&mut self, evaluation: Evaluation, out: &mut Vec<f32>) {
        self.team.state().arguments.write().evaluation = evaluation;
        self.team.run(steps::evaluate);
        out.clear();
        for scratch in &self.state().scratch {
            out.extend_from_slice(&scratch.lock().output);
        }
    }

    /// A critic step in which the target's mean counts `target_weight` times.
    pub(super) fn criticise(
        &mut self,
        batch: Batch<'_>,
        step: &CriticStep<'_>,
        target_weight: f64,
    ) -> Result<CriticReport> {
        checks::per_class("proportion", step.proportions, self.counts.len())?;
        checks::positions(step.positions, batch.source.len())?;
        checks::weight("penalty_weight", step.penalty_weight)?;
        step.adam.validate()?;
        self.place_batch(&batch)?;
        self.place_source_weights(step.proportions)?;
        {
            let arguments = &mut *self.team.state().arguments.write();
            refill(
                &mut arguments.positions,
                step.positions.iter().map(|p| *p as f32),
            );
            arguments.penalty_weight = step.penalty_weight;
            arguments.target_weight = target_weight;
        }
        let [source, target, penalty, _] = self.run(steps::critic_chain);
        let distance = source - target;
        let penalty = penalty / (3 * batch.source.len()) as f64;
        let loss = -distance + step.penalty_weight * penalty;
        self.accept("critic", loss)?;
        self.update(&[(Network::Critic, step.adam)]);
        Ok(CriticReport {
            loss,
            distance,
            penalty,
        })
    }

    fn classifier_report(&self, sums: &[f64; 4], rows: usize) -> ClassifierReport {
        let arguments = self.state().arguments.read();
        let objective = &arguments.objective;
        let entropy = sums[1] / rows as f64;
        // Every member knows the same diversity.
        let diversity = sums[2] / self.team.members() as f64;
        ClassifierReport {
            loss: objective.cross_entropy_weight * sums[0]
                + objective.entropy_weight * entropy
                + objective.diversity().signed_weight() * diversity,
            cross_entropy: sums[0],
            entropy,
            diversity,
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

    fn critic_step(&mut self, batch: Batch<'_>, step: &CriticStep<'_>) -> Result<CriticReport> {
        self.criticise(batch, step, 1.0)
    }

    fn map_step(&mut self, batch: Batch<'_>, step: &MapStep<'_>) -> Result<MapReport> {
        checks::per_class("proportion", step.proportions, self.counts.len())?;
        checks::weight("transport_weight", step.transport_weight)?;
        step.adam.validate()?;
        self.place_batch(&batch)?;
        self.place_source_weights(step.proportions)?;
        self.team.state().arguments.write().transport_weight = step.transport_weight;
        let [source, target, transport_cost, _] = self.run(steps::map_chain);
        let distance = source - target;
        let loss = distance + step.transport_weight * transport_cost;
        self.accept("map", loss)?;
        self.update(&[(Network::Map, step.adam)]);
        Ok(MapReport {
            loss,
            distance,
            transport_cost,
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
        self.place_batch(&batch)?;
        self.place_class_weights(step.objective.class_weights)?;
        let rows = batch.source.len();
        let state = self.team.state();
        {
            let arguments = &mut *state.arguments.write();
            arguments.objective.copy(&step.objective);
            let forwards = 1 + usize::from(arguments.objective.uses_target);
            arguments.draw_keep(&state.architecture, rows, forwards, generator);
        }
        let sums = self.run(classifier_steps::classifier_chain);
        let report = self.classifier_report(&sums, rows);
        self.accept("classifier", report.loss)?;
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
        self.place_class_weights(step.objective.class_weights)?;
        let state = self.team.state();
        {
            let arguments = &mut *state.arguments.write();
            arguments.place_inputs(&batch.source, batch.labels, &state.architecture);
            arguments
                .target_inputs
                .copy(&batch.target, &state.architecture);
            arguments.objective.copy(&step.objective);
            let forwards = 1 + usize::from(arguments.objective.uses_target);
            arguments.draw_keep(&state.architecture, rows, forwards, generator);
        }
        let sums = self.run(classifier_steps::encoder_chain);
        let classifier = self.classifier_report(&sums, rows);
        let loss = classifier.loss + sums[3];
        self.accept("encoder", loss)?;
        self.update(&[
            (Network::Encoder, step.encoder_adam),
            (Network::TargetClassifier, step.classifier_adam),
        ]);
        Ok(EncoderReport {
            loss,
            classifier,
            source_cross_entropy: sums[3],
        })
    }

    fn pretrain_step(
        &mut self,
        inputs: Inputs<'_>,
        labels: &[u32],
        step: &PretrainStep<'_>,
        generator: &mut Generator,
    ) -> Result<PretrainReport> {
        let rows = checks::labelled(&inputs, labels, self.architecture())?;
        checks::per_class("class weight", step.class_weights, self.counts.len())?;
        step.encoder_adam.validate()?;
        step.classifier_adam.validate()?;
        weights::class_counts(labels.iter().copied(), &mut self.counts);
        self.place_class_weights(step.class_weights)?;
        let state = self.team.state();
        {
            let arguments = &mut *state.arguments.write();
            arguments.place_inputs(&inputs, labels, &state.architecture);
            arguments.draw_keep(&state.architecture, rows, 1, generator);
        }
        let [loss, ..] = self.run(classifier_steps::pretrain_chain);
        self.accept("pretraining", loss)?;
        self.update(&[
            (Network::Encoder, step.encoder_adam),
            (Network::SourceClassifier, step.classifier_adam),
        ]);
        Ok(PretrainReport { loss })
    }

    fn encode(&mut self, inputs: Inputs<'_>, latents: &mut Vec<f32>) -> Result<()> {
        inputs.check(self.architecture())?;
        let state = self.team.state();
        state
            .arguments
            .write()
            .inputs
            .copy(&inputs, &state.architecture);
        self.evaluate(Evaluation::Encode, latents);
        Ok(())
    }

    fn transport(&mut self, latents: Rows<'_>, mapped: &mut Vec<f32>) -> Result<()> {
        latents.check("latents", self.architecture().latent)?;
        self.state().arguments.write().inputs.copy_latents(&latents);
        self.evaluate(Evaluation::Transport, mapped);
        Ok(())
    }

    fn score(&mut self, head: Head, latents: Rows<'_>, probabilities: &mut Vec<f32>) -> Result<()> {
        latents.check("latents", self.architecture().latent)?;
        self.state().arguments.write().inputs.copy_latents(&latents);
        self.evaluate(Evaluation::Score(head), probabilities);
        Ok(())
    }

    fn export(&self) -> Result<NamedTensors> {
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
        Ok(tensors)
    }

    fn import(&mut self, tensors: &NamedTensors) -> Result<()> {
        let checked = check_import(self.architecture(), tensors)?;
        self.state().networks.import(&checked.parameters);
        for network in Network::ALL {
            self.steps[network as usize] = checked.steps.get(&network).copied().unwrap_or(0);
        }
        self.moved.clear();
        Ok(())
    }

    fn gradients(&self) -> Result<NamedTensors> {
        let mut tensors = NamedTensors::new();
        for network in &self.moved {
            self.state()
                .networks
                .export_gradients(*network, &mut tensors);
        }
        Ok(tensors)
    }
}

fn refill<T>(values: &mut Vec<T>, new: impl Iterator<Item = T>) {
    values.clear();
    values.extend(new);
}

// === impl Arguments ===

impl Arguments {
    pub(super) fn place_inputs(
        &mut self,
        inputs: &Inputs<'_>,
        labels: &[u32],
        architecture: &Architecture,
    ) {
        self.inputs.copy(inputs, architecture);
        refill(&mut self.labels, labels.iter().copied());
    }
}
