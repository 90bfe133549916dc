//! Jobs of the team: the critic's and the map's chains, from latents to gradients; the update of any network;
//! evaluation.

use std::ops::Range;

use pulp::Arch;

use super::{
    buffers::{refill, zero},
    chain::Chain,
    layer::Mode,
    map::Blocks,
    objective::softmax_rows,
    state::{Arguments, Scratch, State},
    sums::{CriticSums, MapSums},
    team::Member,
};
use crate::{
    architecture::Network,
    engine::{Evaluation, Head},
};

/// Rows that an evaluation handles at a time: enough to fill tiles, few enough to stay in the cache.
const EVALUATION_ROWS: usize = 256;

impl Chain<'_> {
    /// Critic: -W(v) + gamma GP(v).
    pub(super) fn critic(mut self) {
        let (arguments, width) = (self.arguments, self.width());
        self.map_source(Blocks::kept_if(arguments.keep_map));
        // Three sets of points, one after the other: interpolates, mapped source rows, target rows.
        let Scratch { points, map, .. } = &mut *self.scratch;
        points.resize(map.output.len(), 0.0);
        points.extend_from_slice(&map.output);
        self.gather_target();
        let Scratch {
            workspace,
            points,
            critic,
            factors,
            sums,
            ..
        } = &mut *self.scratch;
        let positions = &arguments.positions[self.rows.clone()];
        interpolate(workspace.arch, points, positions, width);
        let layers = self.state.networks.layers(Network::Critic);
        critic.forward_interpolated(layers, points, positions, workspace);
        critic.input_gradient(layers, workspace);

        let (count, all) = (self.rows.len(), arguments.labels.len());
        critic_factors(arguments, self.rows.clone(), factors);
        let negative_source = weighted_sum(factors, &critic.values, count..2 * count);
        let target = weighted_sum(factors, &critic.values, 2 * count..3 * count);
        let penalty_factor = arguments.penalty_weight * 2.0 / (3 * all) as f64;
        let penalty = critic.set_tangent(points, width, factors, penalty_factor, workspace.arch);
        let parts = self.gradients.of_mut(Network::Critic);
        critic.backward(layers, factors, parts, workspace);
        sums.critic = CriticSums {
            source: -negative_source,
            target,
            penalty,
        };
    }

    /// Map: W(phi) + lambda_OT times the transport cost.
    pub(super) fn map(mut self) {
        let (arguments, networks, width) = (self.arguments, &self.state.networks, self.width());
        let (map_layers, critic_layers) = (
            networks.layers(Network::Map),
            networks.layers(Network::Critic),
        );
        if arguments.map_is_kept {
            // As the forward pass would have done.
            let member = &self.scratch.workspace.member;
            self.scratch.map.repeat_running(map_layers, member);
        } else {
            self.map_source(Blocks::Kept);
        }
        self.scratch.points.clear();
        self.gather_target();
        let Scratch {
            workspace,
            points,
            map,
            map_backward,
            critic,
            factors,
            row_weights,
            sums,
            ..
        } = &mut *self.scratch;
        critic.forward(critic_layers, points, workspace);
        let target_sum: f64 = critic.values.iter().map(|value| f64::from(*value)).sum();

        critic.forward(critic_layers, &map.output, workspace);
        critic.input_gradient(critic_layers, workspace);

        let labels = &arguments.labels[self.rows.clone()];
        weights_by_row(labels, &arguments.source_weights, factors);
        weights_by_row(labels, &arguments.cost_weights, row_weights);
        sums.map = MapSums {
            source: weighted_sum(factors, &critic.values, 0..factors.len()),
            target: target_sum / arguments.labels.len() as f64,
            transport_cost: map.transport_cost(map_layers.len() / 2, row_weights),
        };

        map_backward.to_latents = false;
        let gradient = &mut map_backward.gradient;
        gradient.clear();
        for (row, factor) in critic.gradient.chunks_exact(width).zip(&*factors) {
            gradient.extend(row.iter().map(|value| factor * value));
        }
        let cost_slope = (2.0 * arguments.transport_weight) as f32;
        row_weights
            .iter_mut()
            .for_each(|weight| *weight *= cost_slope);
        let parts = self.gradients.of_mut(Network::Map);
        map.backward(map_layers, row_weights, map_backward, parts, workspace);
    }
}

/// Fills the first third of `points`. Each interpolate lies at its position on the line from a mapped source row, in
/// the second third, to a target row, in the last.
fn interpolate(arch: Arch, points: &mut [f32], positions: &[f32], width: usize) {
    let (interpolates, ends) = points.split_at_mut(points.len() / 3);
    let (mapped, target) = ends.split_at(interpolates.len());
    arch.dispatch(
        #[inline(always)]
        || {
            let ends = mapped.chunks_exact(width).zip(target.chunks_exact(width));
            let interpolates = interpolates.chunks_exact_mut(width).zip(positions);
            for ((from, to), (interpolate, position)) in ends.zip(interpolates) {
                for ((point, from), to) in interpolate.iter_mut().zip(from).zip(to) {
                    *point = from + position * (to - from);
                }
            }
        },
    );
}

/// Derivative of the critic's loss by its value at each point: 0 at interpolates, -omega at mapped source rows, the
/// target's weight over N at target rows.
fn critic_factors(arguments: &Arguments, rows: Range<usize>, factors: &mut Vec<f32>) {
    let (count, all) = (rows.len(), arguments.labels.len());
    zero(factors, count);
    let labels = arguments.labels[rows].iter();
    factors.extend(labels.map(|label| -arguments.source_weights[*label as usize] as f32));
    factors.resize(3 * count, (arguments.target_weight / all as f64) as f32);
}

/// Sum of factor times value over `range`, in double precision.
fn weighted_sum(factors: &[f32], values: &[f32], range: Range<usize>) -> f64 {
    let pairs = factors[range.clone()].iter().zip(&values[range]);
    pairs
        .map(|(factor, value)| f64::from(*factor) * f64::from(*value))
        .sum()
}

/// Each row's weight, given one for each class.
fn weights_by_row(labels: &[u32], class_weights: &[f64], out: &mut Vec<f32>) {
    let weights = labels.iter().map(|label| class_weights[*label as usize]);
    refill(out, weights.map(|weight| weight as f32));
}

/// One step of Adam. Layers are dealt out in turn, so that each is updated by one member.
pub(crate) fn update(state: &State, member: &Member) {
    let arguments = &*state.arguments.read();
    let gradients: [_; MAX_MEMBERS] =
        std::array::from_fn(|rank| state.gradients.get(rank).map(|g| g.read()));
    let parts = gradients.iter().flatten();
    let mut turn = 0;
    let mut is_mine = || {
        turn += 1;
        (turn - 1) % member.members() == member.rank
    };
    for (network, adam) in &arguments.updates {
        if let (Network::Encoder, Some(embedding)) = (network, &state.networks.embedding)
            && is_mine()
        {
            let parts = parts.clone().map(|part| part.embedding.as_slice());
            embedding.write().update(state.arch, parts, adam);
        }
        // The target classifier's gradients from target rows are kept apart from those of mapped source rows.
        let twice = *network == Network::TargetClassifier && arguments.objective.uses_target;
        for (number, layer) in state.networks.layers(*network).iter().enumerate() {
            if is_mine() {
                let first = parts.clone().map(|part| &part.of(*network)[number]);
                let on_target = parts.clone().filter(|_| twice);
                let second = on_target.map(|part| &part.on_target[number]);
                layer.update(state.arch, first.chain(second), adam);
            }
        }
    }
}

/// Largest number of threads of an engine. Bounds an array, so that an update allocates nothing.
pub(crate) const MAX_MEMBERS: usize = 64;

/// Encodes, maps or scores this member's rows and leaves the result in its `output`.
pub(crate) fn evaluate(state: &State, member: &Member) {
    let arguments = &*state.arguments.read();
    let scratch = &mut *state.scratch[member.rank].lock();
    let Scratch {
        workspace,
        encoder,
        encoder_input,
        map,
        classifiers: [classifier, ..],
        output,
        ..
    } = scratch;
    output.clear();
    let rows = member.rows(arguments.inputs.rows());
    let (architecture, networks) = (&state.architecture, &state.networks);
    let mode = Mode::Evaluation;
    for start in rows.clone().step_by(EVALUATION_ROWS) {
        let block = start..rows.end.min(start + EVALUATION_ROWS);
        encoder_input.clear();
        let inputs = &arguments.inputs;
        match arguments.evaluation {
            Evaluation::Encode => inputs.assemble(block, architecture, networks, encoder_input),
            _ => inputs.copy_rows(block, architecture.latent, encoder_input),
        }
        match arguments.evaluation {
            Evaluation::Encode => {
                let layers = networks.layers(Network::Encoder);
                encoder.forward(mode, layers, encoder_input, workspace);
                output.extend_from_slice(encoder.output(encoder_input));
            }
            Evaluation::Transport => {
                let layers = networks.layers(Network::Map);
                map.forward(Blocks::Dropped, mode, layers, encoder_input, workspace);
                output.extend_from_slice(&map.output);
            }
            Evaluation::Score(head) => {
                let layers = networks.layers(match head {
                    Head::Source => Network::SourceClassifier,
                    Head::Target => Network::TargetClassifier,
                });
                classifier.forward(mode, layers, encoder_input, |_| None, workspace);
                let from = output.len();
                output.extend_from_slice(classifier.output(encoder_input));
                softmax_rows(&mut output[from..], architecture.classes);
            }
        }
    }
}
