//! The training steps: check the arguments, run forward, check the loss, and only then change the state.

use candle_core::Tensor;

use super::{
    CandleEngine, State,
    objectives::{self, ClassifierTerms, Labelled},
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
        step.adam.validate()?;
        checks::weight("penalty_weight", step.penalty_weight)?;
        let rows = self.gather(&batch)?;
        checks::positions(step.positions, batch.source.len())?;
        let omega = rows.source_weights(step.proportions, self)?;
        let positions = self.place.column(step.positions)?;

        let mut pass = self.pass(&[Network::Critic])?;
        let mapped = pass.map(&rows.source, Mode::Training)?.latents;
        let offsets = (&rows.target - &mapped)?.broadcast_mul(&positions)?;
        let interpolates = (&mapped + offsets)?;
        let points = Tensor::cat(&[&interpolates, &mapped, &rows.target], 0)?;
        let critic_values = pass.critic(&points)?;
        let count = batch.source.len();
        let distance = objectives::distance(
            &critic_values.values.narrow(0, count, count)?,
            &critic_values.values.narrow(0, 2 * count, count)?,
            &omega,
        )?;
        let penalty = objectives::gradient_penalty(&Pass::critic_gradients(&critic_values)?)?;
        let loss = (penalty.affine(step.penalty_weight, 0.0)? - &distance)?;

        let [loss_value, distance, penalty] = self.place.scalars([&loss, &distance, &penalty])?;
        checks::finite_loss("critic", loss_value)?;
        let update = pass.update(&loss, &[(Network::Critic, step.adam)])?;
        self.apply(update);
        Ok(CriticReport {
            loss: loss_value,
            distance,
            penalty,
        })
    }

    fn map_step(&mut self, batch: Batch<'_>, step: &MapStep<'_>) -> Result<MapReport> {
        step.adam.validate()?;
        checks::weight("transport_weight", step.transport_weight)?;
        let rows = self.gather(&batch)?;
        let omega = rows.source_weights(step.proportions, self)?;
        let cost_weights: Vec<f64> = rows.counts.iter().map(|count| 1.0 / count).collect();
        let cost_weights = self.place.column(&rows.by_label(&cost_weights))?;

        let mut pass = self.pass(&[Network::Map])?;
        let mapped = pass.map(&rows.source, Mode::Training)?;
        let source_values = pass.critic(&mapped.latents)?.values;
        let target_values = pass.critic(&rows.target)?.values;
        let distance = objectives::distance(&source_values, &target_values, &omega)?;
        let cost = objectives::transport_cost(&mapped.residuals, &cost_weights)?;
        let loss = (&distance + cost.affine(step.transport_weight, 0.0)?)?;

        let [loss_value, distance, transport_cost] =
            self.place.scalars([&loss, &distance, &cost])?;
        checks::finite_loss("map", loss_value)?;
        let update = pass.update(&loss, &[(Network::Map, step.adam)])?;
        self.apply(update);
        Ok(MapReport {
            loss: loss_value,
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
        step.adam.validate()?;
        checks::objective(&step.objective, self.architecture.classes)?;
        let rows = self.gather(&batch)?;
        let labelled = Labelled::new(&rows.labels, step.objective.class_weights, &self.place)?;

        let mut pass = self.pass(&[Network::TargetClassifier])?;
        let mapped = pass.map(&rows.source, Mode::Training)?.latents;
        let terms = ClassifierTerms::new(
            &mut pass,
            &mapped,
            &labelled,
            &rows.target,
            &step.objective,
            generator,
        )?;

        let report = terms.report(&self.place)?;
        checks::finite_loss("classifier", report.loss)?;
        let update = pass.update(&terms.loss, &[(Network::TargetClassifier, step.adam)])?;
        self.apply(update);
        Ok(report)
    }

    fn encoder_step(
        &mut self,
        batch: RawBatch<'_>,
        step: &EncoderStep<'_>,
        generator: &mut Generator,
    ) -> Result<EncoderReport> {
        step.encoder_adam.validate()?;
        step.classifier_adam.validate()?;
        let classes = self.architecture.classes;
        checks::objective(&step.objective, classes)?;
        let count = checks::raw_batch(&batch, &self.architecture)?;
        let labelled = Labelled::new(batch.labels, step.objective.class_weights, &self.place)?;
        let unweighted = Labelled::new(batch.labels, &vec![1.0; classes], &self.place)?;

        let mut pass = self.pass(&[Network::Encoder, Network::TargetClassifier])?;
        let features = [pass.features(&batch.source)?, pass.features(&batch.target)?];
        let latents = pass.encode(Tensor::cat(&features, 0)?, Mode::Training)?;
        let source = latents.narrow(0, 0, count)?;
        let target = latents.narrow(0, count, count)?;
        let to_map = if step.through_map {
            source.clone()
        } else {
            source.detach()
        };
        let mapped = pass.map(&to_map, Mode::Evaluation)?.latents;
        let terms = ClassifierTerms::new(
            &mut pass,
            &mapped,
            &labelled,
            &target,
            &step.objective,
            generator,
        )?;
        let source_predictions = pass.evaluate_classifier(Network::SourceClassifier, &source)?;
        let source_cross_entropy = unweighted.cross_entropy(&source_predictions)?;
        let loss = (&terms.loss + &source_cross_entropy)?;

        let [loss_value, source_cross_entropy] =
            self.place.scalars([&loss, &source_cross_entropy])?;
        checks::finite_loss("encoder", loss_value)?;
        let report = EncoderReport {
            loss: loss_value,
            classifier: terms.report(&self.place)?,
            source_cross_entropy,
        };
        let optimisers = [
            (Network::Encoder, step.encoder_adam),
            (Network::TargetClassifier, step.classifier_adam),
        ];
        let update = pass.update(&loss, &optimisers)?;
        self.apply(update);
        Ok(report)
    }

    fn pretrain_step(
        &mut self,
        inputs: Inputs<'_>,
        labels: &[u32],
        step: &PretrainStep<'_>,
        generator: &mut Generator,
    ) -> Result<PretrainReport> {
        step.encoder_adam.validate()?;
        step.classifier_adam.validate()?;
        checks::per_class(
            "class weight",
            step.class_weights,
            self.architecture.classes,
        )?;
        checks::labelled(&inputs, labels, &self.architecture)?;
        let labelled = Labelled::new(labels, step.class_weights, &self.place)?;

        let mut pass = self.pass(&[Network::Encoder, Network::SourceClassifier])?;
        let features = pass.features(&inputs)?;
        let latents = pass.encode(features, Mode::Training)?;
        let predictions = pass.train_classifier(Network::SourceClassifier, &latents, generator)?;
        let loss = labelled.cross_entropy(&predictions)?;

        let [loss_value] = self.place.scalars([&loss])?;
        checks::finite_loss("pretrain", loss_value)?;
        let optimisers = [
            (Network::Encoder, step.encoder_adam),
            (Network::SourceClassifier, step.classifier_adam),
        ];
        let update = pass.update(&loss, &optimisers)?;
        self.apply(update);
        Ok(PretrainReport { loss: loss_value })
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
