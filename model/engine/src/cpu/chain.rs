//! A step's chain: from a batch to the gradients of what the step trains, on one member's rows.

use std::ops::Range;

use super::{
    layer::Mode,
    map::Blocks,
    state::{Arguments, Buffer, Gradients, Scratch, State},
    team::Member,
};
use crate::architecture::Network;

/// What a chain works with: what all members share, and what its member owns. Each step's chain is a method.
pub(crate) struct Chain<'c> {
    pub(super) state: &'c State,
    pub(super) arguments: &'c Arguments,
    pub(super) scratch: &'c mut Scratch,
    pub(super) gradients: &'c mut Gradients,
    /// The part of the batch's rows that the member handles.
    pub(super) rows: Range<usize>,
}

/// Runs the chain in the arguments on one member's rows.
pub(crate) fn run(state: &State, member: &Member) {
    let arguments = &*state.arguments.read();
    if let Some(chain) = arguments.chain {
        chain(Chain {
            state,
            arguments,
            scratch: &mut state.scratch[member.rank].lock(),
            gradients: &mut state.gradients[member.rank].write(),
            rows: member.rows(arguments.labels.len()),
        });
    }
}

impl Chain<'_> {
    /// phi of the member's source rows, in training mode, into `scratch.map.output`.
    pub(super) fn map_source(&mut self, kept: Blocks) {
        let (arguments, width) = (self.arguments, self.width());
        let rows = &arguments.source_rows[self.rows.clone()];
        let (scratch, layers) = (&mut *self.scratch, self.state.networks.layers(Network::Map));
        let (source, workspace) = (&mut scratch.source, &mut scratch.workspace);
        source.clear();
        gather(&arguments.source, rows, width, source);
        let map = &mut scratch.map;
        map.forward(kept, Mode::Training, layers, source, workspace);
    }

    /// Appends the member's target rows to `scratch.points`.
    pub(super) fn gather_target(&mut self) {
        let (arguments, width) = (self.arguments, self.width());
        let rows = &arguments.target_rows[self.rows.clone()];
        gather(&arguments.target, rows, width, &mut self.scratch.points);
    }

    /// Numbers in a latent.
    pub(super) fn width(&self) -> usize {
        self.state.architecture.latent
    }
}

/// Appends rows of a buffer to `out`.
pub(super) fn gather(buffer: &Buffer, rows: &[u32], width: usize, out: &mut Vec<f32>) {
    for row in rows {
        out.extend_from_slice(&buffer.latents[*row as usize * width..][..width]);
    }
}
