//! Chains of the steps that train classifiers and encoders, from inputs to gradients.

use super::{
    layer::{DropoutMask, Mode},
    objective::{cross_entropy, entropy, information_gradient},
    state::{Arguments, Gradients, Scratch, State},
    steps::{gather, map_source},
    sums::ClassifierSums,
    team::Member,
};
use crate::architecture::Network;

/// Target classifier on mapped source rows and, if the objective has a term on them, on target rows.
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

/// Encoder and target classifier (stage SSg): the objective of [`classifier_chain`] plus the fixed source classifier's
/// cross-entropy.
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
        let (workspace, layers) = (&mut scratch.workspace, networks.layers(Network::Encoder));
        scratch
            .encoder
            .forward(Mode::Training, layers, input, workspace, member);
        let latents = scratch.encoder.output(input);
        let (layers, source) = (networks.layers(Network::Map), &latents[..split]);
        let mode = Mode::Evaluation;
        if arguments.through_map {
            let map = &mut scratch.map;
            map.forward_and_keep(mode, layers, source, workspace, member);
        } else {
            scratch.map.forward(mode, layers, source, workspace, member);
        }
        scratch.points.clear();
        scratch.points.extend_from_slice(&latents[split..]);
    }
    target_classifier(state, arguments, scratch, gradients, member);
    if arguments.through_map {
        mapped_rows_backward(state, scratch, gradients, rows.len(), member);
    }

    let Scratch {
        workspace,
        encoder,
        encoder_input,
        classifiers: [_, on_target, source_classifier],
        unused_gradients,
        map_backward,
        ..
    } = scratch;
    let layers = networks.layers(Network::SourceClassifier);
    let source = &encoder.output(encoder_input)[..split];
    source_classifier.forward(
        Mode::Evaluation,
        layers,
        source,
        |_| None,
        workspace,
        member,
    );
    let labels = &arguments.labels[rows.clone()];
    // Unweighted: every class counts alike. `slopes` is free again and has one entry for each class.
    let class_weights = &mut scratch.slopes;
    class_weights.fill(1.0 / arguments.labels.len() as f64);
    let mut gradient = std::mem::take(&mut source_classifier.gradient);
    let logits = source_classifier.output(source);
    let source_loss = cross_entropy(logits, labels, class_weights, 1.0, &mut gradient);
    source_classifier.gradient = gradient;
    unused_gradients.resize_with(layers.len(), Default::default);
    source_classifier.backward(
        layers,
        source,
        |_| None,
        unused_gradients,
        workspace,
        member,
    );
    source_classifier.backward_input(layers, workspace);

    let gradient = encoder.gradient_mut();
    gradient.clear();
    gradient.extend_from_slice(&source_classifier.gradient);
    if arguments.through_map {
        for (sum, value) in gradient.iter_mut().zip(&map_backward.gradient) {
            *sum += value;
        }
    }
    if arguments.objective.uses_target {
        on_target.backward_input(networks.layers(Network::TargetClassifier), workspace);
        gradient.extend_from_slice(&on_target.gradient);
    } else {
        gradient.resize(2 * split, 0.0);
    }
    encoder_backward(state, arguments, scratch, gradients, rows, member);
    scratch.sums.source_cross_entropy = source_loss;
}

/// From the gradient behind the target classifier's first layer on mapped source rows to that at their latents, in
/// `scratch.map_backward`.
fn mapped_rows_backward(
    state: &State,
    scratch: &mut Scratch,
    gradients: &mut Gradients,
    rows: usize,
    member: &Member<'_>,
) {
    let Scratch {
        workspace,
        map,
        map_backward,
        row_weights,
        classifiers: [on_source, ..],
        ..
    } = scratch;
    let networks = &state.networks;
    on_source.backward_input(networks.layers(Network::TargetClassifier), workspace);
    std::mem::swap(&mut map_backward.gradient, &mut on_source.gradient);
    map_backward.to_latents = true;
    // The encoder does not learn from the transport cost.
    row_weights.clear();
    row_weights.resize(rows, 0.0);
    // The map is fixed: its gradients are computed on the way and not used.
    let parts = gradients.of_mut(Network::Map);
    let layers = networks.layers(Network::Map);
    map.backward(layers, row_weights, map_backward, parts, workspace, member);
}

/// Encoder and source classifier by cross-entropy.
pub(crate) fn pretrain_chain(state: &State, member: &Member<'_>) {
    let arguments = &*state.arguments.read();
    let scratch = &mut *state.scratch[member.rank].lock();
    let gradients = &mut *state.gradients[member.rank].write();
    let rows = member.rows(arguments.inputs.rows());
    let networks = &state.networks;
    let Scratch {
        workspace,
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
    encoder.forward(Mode::Training, layers, encoder_input, workspace, member);
    let latents = encoder.output(encoder_input);
    let layers = networks.layers(Network::SourceClassifier);
    let all = arguments.inputs.rows();
    let dropout_mask =
        |layer: usize| dropout_mask_rows(&arguments.dropout_masks[0], layer, rows.clone(), all);
    classifier.forward(
        Mode::Training,
        layers,
        latents,
        dropout_mask,
        workspace,
        member,
    );
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
    classifier.backward(layers, latents, dropout_mask, parts, workspace, member);
    classifier.backward_input(layers, workspace);
    std::mem::swap(encoder.gradient_mut(), &mut classifier.gradient);
    encoder_backward(state, arguments, scratch, gradients, rows, member);
    scratch.sums.source_cross_entropy = loss;
}

/// The target classifier's objective and gradients, on mapped source rows in `scratch.map.output` and target rows in
/// `scratch.points`.
fn target_classifier(
    state: &State,
    arguments: &Arguments,
    scratch: &mut Scratch,
    gradients: &mut Gradients,
    member: &Member<'_>,
) {
    let Scratch {
        workspace,
        map,
        points,
        classifiers: [on_source, on_target, _],
        probabilities,
        marginal,
        slopes,
        marginal_part,
        sums,
        ..
    } = scratch;
    let objective = &arguments.objective;
    let layers = state.networks.layers(Network::TargetClassifier);
    let all = arguments.labels.len();
    let rows = member.rows(all);
    let dropout_mask =
        |layer: usize| dropout_mask_rows(&arguments.dropout_masks[0], layer, rows.clone(), all);
    on_source.forward(
        Mode::Training,
        layers,
        &map.output,
        dropout_mask,
        workspace,
        member,
    );
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
    on_source.backward(layers, &map.output, dropout_mask, parts, workspace, member);
    sums.classifier = ClassifierSums {
        cross_entropy,
        ..Default::default()
    };
    if !objective.uses_target {
        return;
    }

    let dropout_mask =
        |layer: usize| dropout_mask_rows(&arguments.dropout_masks[1], layer, rows.clone(), all);
    on_target.forward(
        Mode::Training,
        layers,
        points,
        dropout_mask,
        workspace,
        member,
    );
    let classes = state.architecture.classes;
    let mut gradient = std::mem::take(&mut on_target.gradient);
    let logits = on_target.output(points);
    let entropy_sum = entropy(logits, classes, probabilities, marginal);
    member.sum(marginal, marginal_part);
    marginal.iter_mut().for_each(|sum| *sum /= all as f64);
    let diversity = objective.diversity();
    sums.classifier.entropy = entropy_sum;
    sums.classifier.diversity = diversity.value(marginal, slopes);
    let slope_factor = diversity.signed_weight() / all as f64;
    slopes.iter_mut().for_each(|slope| *slope *= slope_factor);
    let entropy_factor = objective.entropy_weight / all as f64;
    information_gradient(logits, probabilities, entropy_factor, slopes, &mut gradient);
    on_target.gradient = gradient;
    let parts = &mut gradients.on_target;
    on_target.backward(layers, points, dropout_mask, parts, workspace, member);
}

/// From the gradient at the encoder's output to the gradients of its parameters.
pub(super) fn encoder_backward(
    state: &State,
    arguments: &Arguments,
    scratch: &mut Scratch,
    gradients: &mut Gradients,
    rows: std::ops::Range<usize>,
    member: &Member<'_>,
) {
    let Scratch {
        workspace,
        encoder,
        encoder_input,
        ..
    } = scratch;
    let architecture = &state.architecture;
    let layers = state.networks.layers(Network::Encoder);
    let parts = gradients.of_mut(Network::Encoder);
    encoder.backward(layers, encoder_input, parts, workspace, member);
    if let Some(embedding) = &state.networks.embedding {
        let gradient = encoder.input_gradient(layers, workspace);
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

/// The dropout mask of a member's rows in one layer; `all` is the number of rows of all members.
pub(super) fn dropout_mask_rows(
    masks: &[Vec<f32>],
    layer: usize,
    rows: std::ops::Range<usize>,
    all: usize,
) -> DropoutMask<'_> {
    let mask = masks.get(layer)?;
    let width = mask.len() / all;
    Some(&mask[rows.start * width..rows.end * width])
}
