//! The jobs of the team: the critic's and the map's chains from latents to gradients, the update of any
//! network, and evaluation.

use super::{
    layer::Mode,
    normalise::dot,
    objective::softmax_rows,
    state::{Arguments, Buffer, Evaluation, Scratch, State},
    team::Member,
};
use crate::{architecture::Network, engine::Head};

/// Rows an evaluation works on at a time: enough for full tiles, few enough for the cache.
const EVALUATION_ROWS: usize = 256;

/// Critic: -W(v) + gamma GP(v). Reports the sums of omega v(phi(z_S)), of v(z_T) and of the penalty.
pub(crate) fn critic_chain(state: &State, member: &Member<'_>) {
    let arguments = &*state.arguments.read();
    let scratch = &mut *state.scratch[member.rank].lock();
    let gradients = &mut *state.gradients[member.rank].write();
    let rows = member.rows(arguments.source_rows.len());
    let width = state.architecture.latent;
    map_source(state, arguments, scratch, member);

    let Scratch {
        tools,
        source,
        points,
        map,
        critic,
        tangent,
        factors,
        ..
    } = scratch;
    // The three sets of points: interpolates, mapped source, target. `source` is free again.
    source.clear();
    gather(
        &arguments.target,
        &arguments.target_rows[rows.clone()],
        width,
        source,
    );
    let (mapped, target) = (&map.output, &*source);
    points.resize(mapped.len(), 0.0);
    let positions = &arguments.positions[rows.clone()];
    tools.arch.dispatch(
        #[inline(always)]
        || {
            let ends = mapped.chunks_exact(width).zip(target.chunks_exact(width));
            let lines = points.chunks_exact_mut(width).zip(positions);
            for ((from, to), (line, position)) in ends.zip(lines) {
                for ((point, from), to) in line.iter_mut().zip(from).zip(to) {
                    *point = from + position * (to - from);
                }
            }
        },
    );
    points.extend_from_slice(mapped);
    points.extend_from_slice(target);

    let layers = state.networks.layers(Network::Critic);
    critic.forward(layers, points, tools);
    critic.input_gradient(layers, tools);

    let (count, all) = (rows.len(), arguments.source_rows.len());
    factors.clear();
    factors.resize(count, 0.0);
    let labels = arguments.labels[rows].iter();
    factors.extend(labels.map(|label| -arguments.source_weights[*label as usize] as f32));
    factors.resize(3 * count, (arguments.target_weight / all as f64) as f32);
    let weighted = |from: usize| {
        let pairs = factors[from..from + count]
            .iter()
            .zip(&critic.values[from..]);
        pairs
            .map(|(factor, value)| f64::from(*factor) * f64::from(*value))
            .sum::<f64>()
    };
    let (source_sum, target_sum) = (weighted(count), weighted(2 * count));

    let penalty_factor = arguments.penalty_weight * 2.0 / (3 * all) as f64;
    tangent.resize(points.len(), 0.0);
    let mut penalty = 0.0;
    tools.arch.dispatch(
        #[inline(always)]
        || {
            let rows = critic
                .gradient
                .chunks_exact(width)
                .zip(points.chunks_exact(width));
            let lines = tangent.chunks_exact_mut(width).zip(&*factors);
            for ((gradient, point), (line, factor)) in rows.zip(lines) {
                let norm = f64::from(dot(gradient, gradient)).sqrt();
                penalty += (norm - 1.0).powi(2);
                // Where the gradient vanishes, 0 is a subgradient of its norm.
                let scale = match norm > 0.0 {
                    true => (penalty_factor * (norm - 1.0) / norm) as f32,
                    false => 0.0,
                };
                for ((to, gradient), point) in line.iter_mut().zip(gradient).zip(point) {
                    *to = scale * gradient + factor * point;
                }
            }
        },
    );
    let parts = gradients.of_mut(Network::Critic);
    critic.backward(layers, tangent, factors, parts, tools);
    scratch.report = [-source_sum, target_sum, penalty, 0.0];
}

/// Map: W(phi) + lambda_OT times the transport cost. Reports the sums of omega v(phi(z_S)) and of
/// v(z_T) / N, and the cost.
pub(crate) fn map_chain(state: &State, member: &Member<'_>) {
    let arguments = &*state.arguments.read();
    let scratch = &mut *state.scratch[member.rank].lock();
    let gradients = &mut *state.gradients[member.rank].write();
    let rows = member.rows(arguments.source_rows.len());
    let width = state.architecture.latent;
    let Scratch {
        tools,
        source,
        points,
        map,
        map_backward,
        critic,
        factors,
        row_weights,
        ..
    } = scratch;
    let critic_layers = state.networks.layers(Network::Critic);
    let map_layers = state.networks.layers(Network::Map);

    points.clear();
    gather(
        &arguments.target,
        &arguments.target_rows[rows.clone()],
        width,
        points,
    );
    critic.forward(critic_layers, points, tools);
    let target_sum: f64 = critic.values.iter().map(|value| f64::from(*value)).sum();

    source.clear();
    gather(
        &arguments.source,
        &arguments.source_rows[rows.clone()],
        width,
        source,
    );
    map.forward_and_keep(map_layers, source, tools, member);
    critic.forward(critic_layers, &map.output, tools);
    critic.input_gradient(critic_layers, tools);

    let labels = &arguments.labels[rows];
    let by_class = |weights: &[f64], out: &mut Vec<f32>| {
        out.clear();
        out.extend(labels.iter().map(|label| weights[*label as usize] as f32));
    };
    by_class(&arguments.source_weights, factors);
    by_class(&arguments.cost_weights, row_weights);
    let pairs = factors.iter().zip(&critic.values);
    let source_sum: f64 = pairs.map(|(f, v)| f64::from(*f) * f64::from(*v)).sum();
    let cost = map.transport_cost(map_layers.len() / 2, row_weights);

    let gradient = &mut map_backward.gradient;
    gradient.clear();
    for (row, factor) in critic.gradient.chunks_exact(width).zip(&*factors) {
        gradient.extend(row.iter().map(|value| factor * value));
    }
    let cost_slope = (2.0 * arguments.transport_weight) as f32;
    row_weights
        .iter_mut()
        .for_each(|weight| *weight *= cost_slope);
    let parts = gradients.of_mut(Network::Map);
    map.backward(map_layers, row_weights, map_backward, parts, tools, member);
    let all = arguments.source_rows.len() as f64;
    scratch.report = [source_sum, target_sum / all, cost, 0.0];
}

/// Adam, layer by layer, each layer by one member.
pub(crate) fn update(state: &State, member: &Member<'_>) {
    let arguments = &*state.arguments.read();
    let gradients: [_; MAX_MEMBERS] =
        std::array::from_fn(|rank| state.gradients.get(rank).map(|g| g.read()));
    let parts = gradients.iter().flatten();
    let mut turn = 0;
    let mut mine = || {
        turn += 1;
        (turn - 1) % member.members() == member.rank
    };
    for (network, adam) in &arguments.updates {
        if let (Network::Encoder, Some(embedding)) = (network, &state.networks.embedding)
            && mine()
        {
            let parts = parts.clone().map(|part| part.embedding.as_slice());
            embedding.write().update(state.arch, parts, adam);
        }
        let twice = *network == Network::TargetClassifier && arguments.objective.uses_target;
        for (number, layer) in state.networks.layers(*network).iter().enumerate() {
            if mine() {
                let first = parts.clone().map(|part| &part.of(*network)[number]);
                let on_target = parts.clone().filter(|_| twice);
                let second = on_target.map(|part| &part.on_target[number]);
                layer.update(state.arch, first.chain(second), adam);
            }
        }
    }
}

/// Most threads an engine may have.
pub(crate) const MAX_MEMBERS: usize = 64;

/// Encodes, maps or scores this member's rows into its output.
pub(crate) fn evaluate(state: &State, member: &Member<'_>) {
    let arguments = &*state.arguments.read();
    let scratch = &mut *state.scratch[member.rank].lock();
    let Scratch {
        tools,
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
        match arguments.evaluation {
            Evaluation::Encode => {
                arguments
                    .inputs
                    .assemble(block, architecture, networks, encoder_input);
                let layers = networks.layers(Network::Encoder);
                encoder.forward(mode, layers, encoder_input, tools, member);
                output.extend_from_slice(encoder.output(encoder_input));
            }
            Evaluation::Transport => {
                arguments
                    .inputs
                    .copy_rows(block, architecture.latent, encoder_input);
                let layers = networks.layers(Network::Map);
                map.forward(mode, layers, encoder_input, tools, member);
                output.extend_from_slice(&map.output);
            }
            Evaluation::Score(head) => {
                arguments
                    .inputs
                    .copy_rows(block, architecture.latent, encoder_input);
                let layers = networks.layers(match head {
                    Head::Source => Network::SourceClassifier,
                    Head::Target => Network::TargetClassifier,
                });
                classifier.forward(mode, layers, encoder_input, |_| None, tools, member);
                let from = output.len();
                output.extend_from_slice(classifier.output(encoder_input));
                softmax_rows(&mut output[from..], architecture.classes);
            }
        }
    }
}

/// phi of this member's source rows, in training mode, into `scratch.map.output`.
pub(crate) fn map_source(
    state: &State,
    arguments: &Arguments,
    scratch: &mut Scratch,
    member: &Member<'_>,
) {
    let rows = &arguments.source_rows[member.rows(arguments.source_rows.len())];
    scratch.source.clear();
    gather(
        &arguments.source,
        rows,
        state.architecture.latent,
        &mut scratch.source,
    );
    let layers = state.networks.layers(Network::Map);
    let (map, source, tools) = (&mut scratch.map, &scratch.source, &mut scratch.tools);
    map.forward(Mode::Training, layers, source, tools, member);
}

pub(crate) fn gather(buffer: &Buffer, rows: &[u32], width: usize, out: &mut Vec<f32>) {
    for row in rows {
        out.extend_from_slice(&buffer.latents[*row as usize * width..][..width]);
    }
}
