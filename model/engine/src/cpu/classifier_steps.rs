//! Chains of the steps that train classifiers and encoders, from inputs to gradients.

use super::{
    buffers::zero,
    chain::Chain,
    encoder::OwnedInputs,
    layer::Mode,
    map::Blocks,
    objective::{cross_entropy, entropy, information_gradient},
    state::Scratch,
    sums::ClassifierSums,
};
use crate::architecture::Network;

impl Chain<'_> {
    /// Target classifier on mapped source rows and, if the objective has a term on them, on target rows.
    pub(super) fn classifier(mut self) {
        self.map_source(Blocks::Dropped);
        self.scratch.points.clear();
        self.gather_target();
        self.target_classifier();
    }

    /// Encoder and target classifier (stage SSg): the objective of [`Chain::classifier`] plus the fixed source classifier's
    /// cross-entropy.
    pub(super) fn encoder(mut self) {
        let (arguments, networks) = (self.arguments, &self.state.networks);
        let split = self.rows.len() * self.width();
        self.encode(&[&arguments.inputs, &arguments.target_inputs]);
        let scratch = &mut *self.scratch;
        let (map, workspace) = (&mut scratch.map, &mut scratch.workspace);
        let (source, target) = scratch
            .encoder
            .output(&scratch.encoder_input)
            .split_at(split);
        let (layers, blocks) = (
            networks.layers(Network::Map),
            Blocks::kept_if(arguments.through_map),
        );
        map.forward(blocks, Mode::Evaluation, layers, source, workspace);
        target.clone_into(&mut scratch.points);
        self.target_classifier();
        if arguments.through_map {
            self.mapped_rows_backward();
        }

        let Scratch {
            workspace,
            encoder,
            encoder_input,
            classifiers: [_, on_target, source_classifier],
            unused_gradients,
            map_backward,
            slopes: class_weights,
            sums,
            ..
        } = &mut *self.scratch;
        let layers = networks.layers(Network::SourceClassifier);
        let source = &encoder.output(encoder_input)[..split];
        source_classifier.forward(Mode::Evaluation, layers, source, |_| None, workspace);
        let labels = &arguments.labels[self.rows.clone()];
        // Unweighted: every class counts alike. `slopes` is free again and has one entry for each class.
        class_weights.fill(1.0 / arguments.labels.len() as f64);
        sums.source_cross_entropy = source_classifier.differentiate(source, |logits, gradient| {
            cross_entropy(logits, labels, class_weights, 1.0, gradient)
        });
        unused_gradients.resize_with(layers.len(), Default::default);
        source_classifier.backward(layers, source, |_| None, unused_gradients, workspace);
        source_classifier.backward_input(layers, workspace);

        let gradient = encoder.gradient_mut();
        source_classifier.gradient.clone_into(gradient);
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
        self.encoder_backward();
    }

    /// From the gradient behind the target classifier's first layer on mapped source rows to that at their latents, in
    /// `scratch.map_backward`.
    fn mapped_rows_backward(&mut self) {
        let Scratch {
            workspace,
            map,
            map_backward,
            row_weights,
            classifiers: [on_source, ..],
            ..
        } = &mut *self.scratch;
        let networks = &self.state.networks;
        on_source.backward_input(networks.layers(Network::TargetClassifier), workspace);
        std::mem::swap(&mut map_backward.gradient, &mut on_source.gradient);
        map_backward.to_latents = true;
        // The encoder does not learn from the transport cost.
        zero(row_weights, self.rows.len());
        // The map is fixed: its gradients are computed on the way and not used.
        let parts = self.gradients.of_mut(Network::Map);
        let layers = networks.layers(Network::Map);
        map.backward(layers, row_weights, map_backward, parts, workspace);
    }

    /// Encoder and source classifier by cross-entropy.
    pub(super) fn pretrain(mut self) {
        let arguments = self.arguments;
        self.encode(&[&arguments.inputs]);
        self.source_classifier();
        let [classifier, ..] = &mut self.scratch.classifiers;
        std::mem::swap(
            self.scratch.encoder.gradient_mut(),
            &mut classifier.gradient,
        );
        self.encoder_backward();
    }

    /// Encoder in training mode, on the member's rows of these inputs, one after the other.
    pub(super) fn encode(&mut self, all_inputs: &[&OwnedInputs]) {
        let (architecture, networks) = (&self.state.architecture, &self.state.networks);
        let scratch = &mut *self.scratch;
        let input = &mut scratch.encoder_input;
        input.clear();
        for inputs in all_inputs {
            inputs.assemble(self.rows.clone(), architecture, networks, input);
        }
        let layers = networks.layers(Network::Encoder);
        let workspace = &mut scratch.workspace;
        scratch
            .encoder
            .forward(Mode::Training, layers, input, workspace);
    }

    /// The source classifier's cross-entropy and gradients on the encoded source rows. The gradient at these rows is then that
    /// of `classifiers[0]`.
    pub(super) fn source_classifier(&mut self) {
        let (arguments, rows, width) = (self.arguments, self.rows.clone(), self.width());
        let Scratch {
            workspace,
            encoder,
            encoder_input,
            classifiers: [classifier, ..],
            sums,
            ..
        } = &mut *self.scratch;
        let layers = self.state.networks.layers(Network::SourceClassifier);
        let source = &encoder.output(encoder_input)[..rows.len() * width];
        let dropout_mask = |layer: usize| arguments.dropout_mask(0, layer, &rows);
        classifier.forward(Mode::Training, layers, source, dropout_mask, workspace);
        let (labels, weights) = (
            &arguments.labels[rows.clone()],
            &arguments.objective.class_weights,
        );
        sums.source_cross_entropy = classifier.differentiate(source, |logits, gradient| {
            cross_entropy(logits, labels, weights, 1.0, gradient)
        });
        let parts = self.gradients.of_mut(Network::SourceClassifier);
        classifier.backward(layers, source, dropout_mask, parts, workspace);
        classifier.backward_input(layers, workspace);
    }

    /// The target classifier's objective and gradients, on mapped source rows in `scratch.map.output` and target rows in
    /// `scratch.points`.
    fn target_classifier(&mut self) {
        let (arguments, rows) = (self.arguments, self.rows.clone());
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
        } = &mut *self.scratch;
        let objective = &arguments.objective;
        let layers = self.state.networks.layers(Network::TargetClassifier);
        let all = arguments.labels.len();
        let dropout_mask = |layer: usize| arguments.dropout_mask(0, layer, &rows);
        on_source.forward(Mode::Training, layers, &map.output, dropout_mask, workspace);
        let labels = &arguments.labels[rows.clone()];
        let cross_entropy = on_source.differentiate(&map.output, |logits, gradient| {
            let (weights, factor) = (&objective.class_weights, objective.cross_entropy_weight);
            cross_entropy(logits, labels, weights, factor, gradient)
        });
        let parts = self.gradients.of_mut(Network::TargetClassifier);
        on_source.backward(layers, &map.output, dropout_mask, parts, workspace);
        sums.classifier = ClassifierSums {
            cross_entropy,
            ..Default::default()
        };
        if !objective.uses_target {
            return;
        }

        let dropout_mask = |layer: usize| arguments.dropout_mask(1, layer, &rows);
        on_target.forward(Mode::Training, layers, points, dropout_mask, workspace);
        let classes = self.state.architecture.classes;
        on_target.differentiate(points, |logits, gradient| {
            sums.classifier.entropy = entropy(logits, classes, probabilities, marginal);
            workspace.member.sum(marginal, marginal_part);
            marginal.iter_mut().for_each(|sum| *sum /= all as f64);
            let diversity = objective.diversity();
            sums.classifier.diversity = diversity.value(marginal, slopes);
            let slope_factor = diversity.signed_weight() / all as f64;
            slopes.iter_mut().for_each(|slope| *slope *= slope_factor);
            let entropy_factor = objective.entropy_weight / all as f64;
            information_gradient(logits, probabilities, entropy_factor, slopes, gradient);
        });
        let parts = &mut self.gradients.on_target;
        on_target.backward(layers, points, dropout_mask, parts, workspace);
    }

    /// From the gradient at the encoder's output to the gradients of its parameters.
    pub(super) fn encoder_backward(&mut self) {
        let (architecture, networks) = (&self.state.architecture, &self.state.networks);
        let (arguments, scratch) = (self.arguments, &mut *self.scratch);
        let (encoder, workspace) = (&mut scratch.encoder, &mut scratch.workspace);
        let layers = networks.layers(Network::Encoder);
        let parts = self.gradients.of_mut(Network::Encoder);
        encoder.backward(layers, &scratch.encoder_input, parts, workspace);
        if let Some(embedding) = &networks.embedding {
            let gradient = encoder.input_gradient(layers, workspace);
            let table = &mut self.gradients.embedding;
            zero(table, embedding.read().value.len());
            let split = (self.rows.len() * architecture.encoder_inputs()).min(gradient.len());
            let (source, target) = gradient.split_at(split);
            for (inputs, gradient) in [
                (&arguments.inputs, source),
                (&arguments.target_inputs, target),
            ] {
                inputs.embedding_gradient(self.rows.clone(), architecture, gradient, table);
            }
        }
    }
}
