//! [`Trees`] as an operator of tract's graphs.

use std::sync::Arc;

use tract_onnx::{model::ParsingContext, pb::NodeProto, tract_hir::internal::*};

use super::trees::Trees;

/// From rows of features to rows of scores.
#[derive(Debug, Clone)]
struct TreeOperator(Arc<Trees>);

/// Builds the operator from a node of the graph.
pub(super) fn build(
    _context: &ParsingContext<'_>,
    node: &NodeProto,
) -> TractResult<(Box<dyn InferenceOp>, Vec<String>)> {
    let trees = Trees::read(node).map_err(|problem| format_err!("{problem}"))?;
    Ok((expand(TreeOperator(Arc::new(trees))), Vec::new()))
}

impl Expansion for TreeOperator {
    fn name(&self) -> StaticName {
        "Trees".into()
    }

    fn rules<'r, 'p: 'r, 's: 'r>(
        &'s self,
        solver: &mut Solver<'r>,
        inputs: &'p [TensorProxy],
        outputs: &'p [TensorProxy],
    ) -> InferenceResult {
        check_input_arity(inputs, 1)?;
        check_output_arity(outputs, 1)?;
        solver.equals(&outputs[0].datum_type, f32::datum_type())?;
        solver.equals(&outputs[0].rank, 2)?;
        solver.equals(&outputs[0].shape[0], &inputs[0].shape[0])?;
        solver.equals(&outputs[0].shape[1], self.0.outputs().to_dim())
    }

    fn wire(
        &self,
        prefix: &str,
        model: &mut TypedModel,
        inputs: &[OutletId],
    ) -> TractResult<TVec<OutletId>> {
        model.wire_node(prefix, self.clone(), inputs)
    }
}

impl Op for TreeOperator {
    fn name(&self) -> StaticName {
        "Trees".into()
    }

    op_as_typed_op!();
}

impl EvalOp for TreeOperator {
    fn is_stateless(&self) -> bool {
        true
    }

    fn eval(&self, inputs: TVec<TValue>) -> TractResult<TVec<TValue>> {
        let input = args_1!(inputs);
        let input = input.cast_to::<f32>()?;
        let shape = input.shape();
        ensure!(
            shape.len() == 2,
            "trees take rows of features, found {shape:?}"
        );
        let (rows, width) = (shape[0], shape[1]);
        let values = input.as_slice::<f32>()?;
        let mut scores = Vec::with_capacity(rows * self.0.outputs());
        for row in 0..rows {
            let row = &values[row * width..(row + 1) * width];
            self.0
                .score(row, &mut scores)
                .map_err(|problem| format_err!("{problem}"))?;
        }
        let scores = Tensor::from_shape(&[rows, self.0.outputs()], &scores)?;
        Ok(tvec!(scores.into_tvalue()))
    }
}

impl TypedOp for TreeOperator {
    fn output_facts(&self, inputs: &[&TypedFact]) -> TractResult<TVec<TypedFact>> {
        let rows = inputs[0].shape[0].clone();
        Ok(tvec!(f32::fact(&[rows, self.0.outputs().into()])))
    }

    as_op!();
}
