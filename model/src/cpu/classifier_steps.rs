//! The steps that train classifiers and encoders: chains from inputs to gradients.

use super::{
    layer::{Keep, Mode},
    objective::{cross_entropy, entropy, information_gradient},
    state::{Arguments, Gradients, Scratch, State},
    steps::{gather, map_source},
    team::Member,
};
use crate::architecture::Network;

/// Target classifier on mapped source rows and, if the objective says so, on target rows. Reports the
/// cross-entropy, the sum of entropies and (alike in every member) the diversity.
pub(crate) fn classifier_chain(state: &State, member: &Member<'_>) {
    let arguments = &*state.arguments.read();
    let scratch = &mut *state.scratch[member.rank].lock();
    let gradients = &mut *state.gradients[member.rank].write();
    let rows = member.rows(arguments.source_rows.len());
    map_source(state, arguments, scratch, member);
    let width = state.architecture.latent;
    scratch.points.clear();
    let target_rows = &arguments.target_rows[rows];
    gather(&arguments.target, target_rows, width, &mut scratch.points);
    target_classifier(state, arguments, scratch, gradients, member);
}

/// Encoder and target classifier (stage SSg). Reports as [`classifier_chain`], and the frozen source
/// classifier's cross-entropy.
pub(crate) fn encoder_chain(state: &State, member: &Member<'_>) {
    let arguments = &*state.arguments.read();
    let scratch = &mut *state.scratch[member.rank].lock();
    let gradients = &mut *state.gradients[member.rank].write();
    let architecture = &state.architecture;
    let rows = member.rows(arguments.inputs.rows());
    let split = rows.len() * architecture.latent;
    let networks = &state.networks;
    {
        let input = &mut scratch.encoder_input;
        input.clear();
        arguments
            .inputs
            .assemble(rows.clone(), architecture, networks, input);
        arguments
            .target_inputs
            .assemble(rows.clone(), architecture, networks, input);
        let (tools, layers) = (&mut scratch.tools, networks.layers(Network::Encoder));
        scratch
            .encoder
            .forward(Mode::Training, layers, input, tools, member);
        let latents = scratch.encoder.output(input);
        let layers = networks.layers(Network::Map);
        scratch
            .map
            .forward(Mode::Evaluation, layers, &latents[..split], tools, member);
        scratch.points.clear();
        scratch.points.extend_from_slice(&latents[split..]);
    }
    target_classifier(state, arguments, scratch, gradients, member);

    let Scratch {
        tools,
        encoder,
        encoder_input,
        classifiers: [_, on_target, frozen],
        frozen_gradients,
        ..
    } = scratch;
    let layers = networks.layers(Network::SourceClassifier);
    let source = &encoder.output(encoder_input)[..split];
    frozen.forward(Mode::Evaluation, layers, source, |_| None, tools, member);
    let labels = &arguments.labels[rows.clone()];
    let plain = 1.0 / arguments.labels.len() as f64;
    scratch.slopes.fill(plain);
    let mut gradient = std::mem::take(&mut frozen.gradient);
    let logits = frozen.output(source);
    let source_loss = cross_entropy(logits, labels, &scratch.slopes, 1.0, &mut gradient);
    frozen.gradient = gradient;
    frozen_gradients.resize_with(layers.len(), Default::default);
    frozen.backward(layers, source, |_| None, frozen_gradients, tools, member);
    frozen.backward_input(layers, tools);

    let gradient = encoder.gradient_mut();
    gradient.clear();
    gradient.extend_from_slice(&frozen.gradient);
    match arguments.objective.uses_target {
        true => {
            on_target.backward_input(networks.layers(Network::TargetClassifier), tools);
            gradient.extend_from_slice(&on_target.gradient);
        }
        false => gradient.resize(2 * split, 0.0),
    }
    encoder_backward(state, arguments, scratch, gradients, rows, member);
    scratch.report[3] = source_loss;
}

/// Encoder and source classifier by cross-entropy, which it reports.
pub(crate) fn pretrain_chain(state: &State, member: &Member<'_>) {
    let arguments = &*state.arguments.read();
    let scratch = &mut *state.scratch[member.rank].lock();
    let gradients = &mut *state.gradients[member.rank].write();
    let rows = member.rows(arguments.inputs.rows());
    let networks = &state.networks;
    let Scratch {
        tools,
        encoder,
        encoder_input,
        classifiers: [classifier, ..],
        ..
    } = scratch;
    encoder_input.clear();
    arguments
        .inputs
        .assemble(rows.clone(), &state.architecture, networks, encoder_input);
    let layers = networks.layers(Network::Encoder);
    encoder.forward(Mode::Training, layers, encoder_input, tools, member);
    let latents = encoder.output(encoder_input);
    let layers = networks.layers(Network::SourceClassifier);
    let all = arguments.inputs.rows();
    let keep = |layer: usize| keep_rows(&arguments.keep[0], layer, rows.clone(), all);
    classifier.forward(Mode::Training, layers, latents, keep, tools, member);
    let mut gradient = std::mem::take(&mut classifier.gradient);
    let weights = &arguments.objective.class_weights;
    let labels = &arguments.labels[rows.clone()];
    let loss = cross_entropy(
        classifier.output(latents),
        labels,
        weights,
        1.0,
        &mut gradient,
    );
    classifier.gradient = gradient;
    let parts = gradients.of_mut(Network::SourceClassifier);
    classifier.backward(layers, latents, keep, parts, tools, member);
    classifier.backward_input(layers, tools);
    std::mem::swap(encoder.gradient_mut(), &mut classifier.gradient);
    encoder_backward(state, arguments, scratch, gradients, rows, member);
    scratch.report = [loss, 0.0, 0.0, 0.0];
}

/// The target classifier's objective on `scratch.map.output` and `scratch.points`, and its gradients.
fn target_classifier(
    state: &State,
    arguments: &Arguments,
    scratch: &mut Scratch,
    gradients: &mut Gradients,
    member: &Member<'_>,
) {
    let Scratch {
        tools,
        map,
        points,
        classifiers: [on_source, on_target, _],
        probabilities,
        marginal,
        slopes,
        sums,
        ..
    } = scratch;
    let objective = &arguments.objective;
    let layers = state.networks.layers(Network::TargetClassifier);
    let all = arguments.labels.len();
    let rows = member.rows(all);
    let keep = |layer: usize| keep_rows(&arguments.keep[0], layer, rows.clone(), all);
    on_source.forward(Mode::Training, layers, &map.output, keep, tools, member);
    let mut gradient = std::mem::take(&mut on_source.gradient);
    let cross_entropy = cross_entropy(
        on_source.output(&map.output),
        &arguments.labels[rows.clone()],
        &objective.class_weights,
        objective.cross_entropy_weight,
        &mut gradient,
    );
    on_source.gradient = gradient;
    let parts = gradients.of_mut(Network::TargetClassifier);
    on_source.backward(layers, &map.output, keep, parts, tools, member);
    scratch.report = [cross_entropy, 0.0, 0.0, 0.0];
    if !objective.uses_target {
        return;
    }

    let keep = |layer: usize| keep_rows(&arguments.keep[1], layer, rows.clone(), all);
    on_target.forward(Mode::Training, layers, points, keep, tools, member);
    let classes = state.architecture.classes;
    let mut gradient = std::mem::take(&mut on_target.gradient);
    let logits = on_target.output(points);
    let entropy_sum = entropy(logits, classes, probabilities, marginal);
    member.sum(marginal, sums);
    marginal.iter_mut().for_each(|sum| *sum /= all as f64);
    let diversity = objective.diversity();
    let diversity_value = diversity.value(marginal, slopes);
    let slope_factor = diversity.signed_weight() / all as f64;
    slopes.iter_mut().for_each(|slope| *slope *= slope_factor);
    let entropy_factor = objective.entropy_weight / all as f64;
    information_gradient(logits, probabilities, entropy_factor, slopes, &mut gradient);
    on_target.gradient = gradient;
    let parts = &mut gradients.on_target;
    on_target.backward(layers, points, keep, parts, tools, member);
    scratch.report = [cross_entropy, entropy_sum, diversity_value, 0.0];
}

/// From `scratch.encoder.gradient` to the encoder's gradients.
pub(super) fn encoder_backward(
    state: &State,
    arguments: &Arguments,
    scratch: &mut Scratch,
    gradients: &mut Gradients,
    rows: std::ops::Range<usize>,
    member: &Member<'_>,
) {
    let Scratch {
        tools,
        encoder,
        encoder_input,
        ..
    } = scratch;
    let architecture = &state.architecture;
    let layers = state.networks.layers(Network::Encoder);
    let parts = gradients.of_mut(Network::Encoder);
    encoder.backward(layers, encoder_input, parts, tools, member);
    if let Some(embedding) = &state.networks.embedding {
        let gradient = encoder.input_gradient(layers, tools);
        let table = &mut gradients.embedding;
        table.clear();
        table.resize(embedding.read().value.len(), 0.0);
        let split = (rows.len() * architecture.encoder_inputs()).min(gradient.len());
        let (source, target) = gradient.split_at(split);
        arguments
            .inputs
            .embedding_gradient(rows.clone(), architecture, source, table);
        arguments
            .target_inputs
            .embedding_gradient(rows, architecture, target, table);
    }
}

/// The kept units of a member's rows in one layer.
pub(super) fn keep_rows(
    keep: &[Vec<f32>],
    layer: usize,
    rows: std::ops::Range<usize>,
    all: usize,
) -> Keep<'_> {
    let units = keep.get(layer)?;
    let width = units.len() / all;
    Some(&units[rows.start * width..rows.end * width])
}
