//! Parameters of a layer, packed for the products that use them.

use super::{gemm::Packed, normalise::Affine, parameter::Parameter};
use crate::architecture::{KERNEL_SIDE, LayerSpec};

/// Parameters of a layer, and its weights packed for products. They are packed again after every change.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) spec: LayerSpec,
    pub(crate) weight: Parameter,
    pub(crate) bias: Parameter,
    pub(crate) scale: Option<Parameter>,
    pub(crate) shift: Option<Parameter>,
    /// The weights as the right factor of the forward product, inputs x outputs.
    pub(crate) forward: Packed,
    /// The weights as the right factor of the backward product, outputs x inputs.
    pub(crate) backward: Packed,
    /// For a convolution over several channels: `forward` and `backward` of each row of the filters, whose inputs are
    /// contiguous in an image.
    pub(crate) filter_rows: Vec<[Packed; 2]>,
}

impl Weights {
    pub(crate) fn affine(&self) -> Option<Affine<'_>> {
        Some(Affine {
            scale: &self.scale.as_ref()?.value,
            shift: &self.shift.as_ref()?.value,
        })
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let affine = self.scale.iter().chain(&self.shift);
        [&self.weight, &self.bias].into_iter().chain(affine)
    }

    pub(super) fn pack(&mut self) {
        let (inputs, outputs) = (self.spec.inputs, self.spec.outputs);
        let weight = &self.weight.value;
        self.forward.pack_columns(weight, inputs, outputs);
        self.backward.pack_rows(weight, outputs, inputs);
        self.pack_filter_rows();
    }

    fn pack_filter_rows(&mut self) {
        if self.spec.channels.is_none_or(|channels| channels == 1) {
            return;
        }
        let (inputs, outputs) = (self.spec.inputs, self.spec.outputs);
        let depth = inputs / KERNEL_SIDE;
        self.filter_rows.resize_with(KERNEL_SIDE, Default::default);
        for (number, [forward, backward]) in self.filter_rows.iter_mut().enumerate() {
            let part = &self.weight.value[number * depth..];
            forward.pack_part_of_columns(part, inputs, depth, outputs);
            backward.pack_part_of_rows(part, inputs, outputs, depth);
        }
    }
}
