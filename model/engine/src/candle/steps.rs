//! The five training steps: check the arguments, run forward, check the loss, and only then change the state.

use candle_core::Tensor;

use super::{
    CandleEngine,
    device::Place,
    objectives,
    pass::{Mode, Pass},
};
use crate::{
    Generator, Inputs, Result,
    architecture::Network,
    checks,
    engine::{
        Batch, ClassifierObjective, ClassifierReport, ClassifierStep, CriticReport, CriticStep,
        EncoderReport, EncoderStep, MapReport, MapStep, PretrainReport, PretrainStep, RawBatch,
    },
    weights,
};

pub(super) fn critic(
    engine: &mut CandleEngine,
    batch: &Batch<'_>,
    step: &CriticStep<'_>,
) -> Result<CriticReport> {
    step.adam.validate()?;
    checks::weight("penalty_weight", step.penalty_weight)?;
    let rows = engine.gather(batch)?;
    checks::positions(step.positions, batch.source.len())?;
    let omega = rows.source_weights(step.proportions, engine)?;
    let positions = engine.place.column(step.positions)?;

    let mut pass = engine.pass(&[Network::Critic])?;
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

    let [loss_value, distance, penalty] = engine.place.scalars([&loss, &distance, &penalty])?;
    checks::finite_loss("critic", loss_value)?;
    let update = pass.update(&loss, &[(Network::Critic, step.adam)])?;
    engine.apply(update);
    Ok(CriticReport {
        loss: loss_value,
        distance,
        penalty,
    })
}

pub(super) fn map(
    engine: &mut CandleEngine,
    batch: &Batch<'_>,
    step: &MapStep<'_>,
) -> Result<MapReport> {
    step.adam.validate()?;
    checks::weight("transport_weight", step.transport_weight)?;
    let rows = engine.gather(batch)?;
    let omega = rows.source_weights(step.proportions, engine)?;
    let cost_weights: Vec<f64> = rows.counts.iter().map(|count| 1.0 / count).collect();
    let cost_weights = engine.place.column(&rows.by_label(&cost_weights))?;

    let mut pass = engine.pass(&[Network::Map])?;
    let mapped = pass.map(&rows.source, Mode::Training)?;
    let source_values = pass.critic(&mapped.latents)?.values;
    let target_values = pass.critic(&rows.target)?.values;
    let distance = objectives::distance(&source_values, &target_values, &omega)?;
    let cost = objectives::transport_cost(&mapped.residuals, &cost_weights)?;
    let loss = (&distance + cost.affine(step.transport_weight, 0.0)?)?;

    let [loss_value, distance, transport_cost] = engine.place.scalars([&loss, &distance, &cost])?;
    checks::finite_loss("map", loss_value)?;
    let update = pass.update(&loss, &[(Network::Map, step.adam)])?;
    engine.apply(update);
    Ok(MapReport {
        loss: loss_value,
        distance,
        transport_cost,
    })
}

pub(super) fn classifier(
    engine: &mut CandleEngine,
    batch: &Batch<'_>,
    step: &ClassifierStep<'_>,
    generator: &mut Generator,
) -> Result<ClassifierReport> {
    step.adam.validate()?;
    checks::objective(&step.objective, engine.architecture.classes)?;
    let rows = engine.gather(batch)?;
    let labelled = Labelled::new(&rows.labels, step.objective.class_weights, engine)?;

    let mut pass = engine.pass(&[Network::TargetClassifier])?;
    let mapped = pass.map(&rows.source, Mode::Training)?.latents;
    let terms = ClassifierTerms::new(
        &mut pass,
        &mapped,
        &labelled,
        &rows.target,
        &step.objective,
        generator,
    )?;

    let report = terms.report(&engine.place)?;
    checks::finite_loss("classifier", report.loss)?;
    let update = pass.update(&terms.loss, &[(Network::TargetClassifier, step.adam)])?;
    engine.apply(update);
    Ok(report)
}

pub(super) fn encoder(
    engine: &mut CandleEngine,
    batch: &RawBatch<'_>,
    step: &EncoderStep<'_>,
    generator: &mut Generator,
) -> Result<EncoderReport> {
    step.encoder_adam.validate()?;
    step.classifier_adam.validate()?;
    let classes = engine.architecture.classes;
    checks::objective(&step.objective, classes)?;
    let count = checks::raw_batch(batch, &engine.architecture)?;
    let labelled = Labelled::new(batch.labels, step.objective.class_weights, engine)?;
    let unweighted = Labelled::new(batch.labels, &vec![1.0; classes], engine)?;

    let mut pass = engine.pass(&[Network::Encoder, Network::TargetClassifier])?;
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
        engine.place.scalars([&loss, &source_cross_entropy])?;
    checks::finite_loss("encoder", loss_value)?;
    let report = EncoderReport {
        loss: loss_value,
        classifier: terms.report(&engine.place)?,
        source_cross_entropy,
    };
    let optimisers = [
        (Network::Encoder, step.encoder_adam),
        (Network::TargetClassifier, step.classifier_adam),
    ];
    let update = pass.update(&loss, &optimisers)?;
    engine.apply(update);
    Ok(report)
}

pub(super) fn pretrain(
    engine: &mut CandleEngine,
    inputs: &Inputs<'_>,
    labels: &[u32],
    step: &PretrainStep<'_>,
    generator: &mut Generator,
) -> Result<PretrainReport> {
    step.encoder_adam.validate()?;
    step.classifier_adam.validate()?;
    checks::per_class(
        "class weight",
        step.class_weights,
        engine.architecture.classes,
    )?;
    checks::labelled(inputs, labels, &engine.architecture)?;
    let labelled = Labelled::new(labels, step.class_weights, engine)?;

    let mut pass = engine.pass(&[Network::Encoder, Network::SourceClassifier])?;
    let features = pass.features(inputs)?;
    let latents = pass.encode(features, Mode::Training)?;
    let predictions = pass.train_classifier(Network::SourceClassifier, &latents, generator)?;
    let loss = labelled.cross_entropy(&predictions)?;

    let [loss_value] = engine.place.scalars([&loss])?;
    checks::finite_loss("pretrain", loss_value)?;
    let optimisers = [
        (Network::Encoder, step.encoder_adam),
        (Network::SourceClassifier, step.classifier_adam),
    ];
    let update = pass.update(&loss, &optimisers)?;
    engine.apply(update);
    Ok(PretrainReport { loss: loss_value })
}

/// Labels on the device, and the weight of each row in the cross-entropy.
struct Labelled {
    labels: Tensor,
    weights: Tensor,
}

/// The target classifier's objective and its terms, on the device.
struct ClassifierTerms {
    loss: Tensor,
    cross_entropy: Tensor,
    entropy: Tensor,
    diversity: Tensor,
}

// === impl Labelled ===

impl Labelled {
    fn new(labels: &[u32], class_weights: &[f64], engine: &CandleEngine) -> Result<Self> {
        let mut counts = vec![0.0; class_weights.len()];
        weights::class_counts(labels.iter().copied(), &mut counts);
        let mut by_class = vec![0.0; class_weights.len()];
        weights::normalised_ratios(class_weights, &counts, &mut by_class)?;
        let by_row: Vec<f64> = labels
            .iter()
            .map(|label| by_class[*label as usize])
            .collect();
        Ok(Self {
            labels: engine.place.indices(labels)?,
            weights: engine.place.column(&by_row)?,
        })
    }

    fn cross_entropy(&self, log_probabilities: &Tensor) -> Result<Tensor> {
        objectives::cross_entropy(log_probabilities, &self.labels, &self.weights)
    }
}

// === impl ClassifierTerms ===

impl ClassifierTerms {
    fn new(
        pass: &mut Pass<'_>,
        mapped: &Tensor,
        labelled: &Labelled,
        target: &Tensor,
        objective: &ClassifierObjective<'_>,
        generator: &mut Generator,
    ) -> Result<Self> {
        let head = Network::TargetClassifier;
        let predictions = pass.train_classifier(head, mapped, generator)?;
        let cross_entropy = labelled.cross_entropy(&predictions)?;
        let mut loss = cross_entropy.affine(objective.cross_entropy_weight, 0.0)?;
        let zero = pass.place.zeros(&[])?;
        let (mut entropy, mut diversity) = (zero.clone(), zero);
        // Without a term on target rows, they must not update the running statistics either.
        if objective.uses_target() {
            let predictions = pass.train_classifier(head, target, generator)?;
            entropy = objectives::entropy(&predictions)?;
            diversity = objectives::diversity(&predictions, &objective.diversity, pass.place)?;
            let diversity_weight = objective.diversity.signed_weight();
            loss = (loss + entropy.affine(objective.entropy_weight, 0.0)?)?;
            loss = (loss + diversity.affine(diversity_weight, 0.0)?)?;
        }
        Ok(Self {
            loss,
            cross_entropy,
            entropy,
            diversity,
        })
    }

    fn report(&self, place: &Place) -> Result<ClassifierReport> {
        let parts = [
            &self.loss,
            &self.cross_entropy,
            &self.entropy,
            &self.diversity,
        ];
        let [loss, cross_entropy, entropy, diversity] = place.scalars(parts)?;
        Ok(ClassifierReport {
            loss,
            cross_entropy,
            entropy,
            diversity,
        })
    }
}
