//! A graph as tract runs it: optimised for a fixed number of rows.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tract_onnx::{pb::tensor_proto::DataType, prelude::*};

use super::{
    graph::{self, Graph, GraphInput},
    rewrite::TREES,
    tree_operator,
};

/// Multiplications of one run, roughly a millisecond's: a single request pays for a whole run.
const RUN: usize = 8_000_000;
/// Fewest and most rows of a run.
const ROWS: (usize, usize) = (8, 128);

/// A network that takes and gives a fixed number of rows.
#[derive(Debug)]
pub(crate) struct Plan {
    plan: TypedSimplePlan<TypedModel>,
    inputs: Vec<PlanInput>,
    rows: usize,
    width: usize,
}

#[derive(Debug)]
struct PlanInput {
    kind: DatumType,
    shape: Vec<usize>,
    /// Numbers of a row.
    width: usize,
}

impl Plan {
    /// Optimises a rewritten graph, whose inputs have these widths, for runs of so many rows.
    pub(crate) fn new(graph: &Graph, widths: &[usize], rows: usize) -> Result<Self, String> {
        let inputs = graph.inputs();
        let inputs: Vec<PlanInput> = inputs
            .iter()
            .zip(widths)
            .map(|(input, width)| PlanInput::new(input, *width, rows))
            .collect::<Result<_, _>>()?;
        // tract trusts files more than we do.
        let built = catch_unwind(AssertUnwindSafe(|| build(graph, &inputs)));
        let plan = built
            .map_err(|_| "tract cannot read it".to_owned())?
            .map_err(|error| format!("{error:#}"))?;
        let fact = plan
            .model()
            .output_fact(0)
            .map_err(|error| error.to_string())?;
        let shape = fact.shape.as_concrete().map(<[usize]>::to_vec);
        let shape = shape.ok_or("the size of the output is open")?;
        let width = match shape[..] {
            [found] if found == rows => 1,
            [found, ref rest @ ..] if found == rows => rest.iter().product(),
            _ => {
                return Err(format!(
                    "the output has sizes {shape:?}, expected {rows} rows"
                ));
            }
        };
        Ok(Self {
            plan,
            inputs,
            rows,
            width,
        })
    }

    /// Like [`Plan::new`], with as many rows as a run of about a millisecond has, or one if the graph is for one.
    pub(crate) fn for_any_rows(graph: &Graph, widths: &[usize]) -> Result<Self, String> {
        let (fewest, most) = ROWS;
        let plan = match Self::new(graph, widths, fewest) {
            Ok(plan) => plan,
            Err(problem) => {
                return Self::new(graph, widths, 1).map_err(|_| problem);
            }
        };
        let multiplications = plan.multiplications() / fewest;
        let rows = (RUN / multiplications.max(1)).clamp(fewest, most);
        let rows = 1 << rows.ilog2();
        if rows == fewest {
            return Ok(plan);
        }
        Self::new(graph, widths, rows)
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Numbers of a row that comes out.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    fn multiplications(&self) -> usize {
        let model = self.plan.model();
        let mut sum = 0;
        for node in model.nodes() {
            let Ok((inputs, _)) = model.node_facts(node.id) else {
                continue;
            };
            let costs = node.op.cost(&inputs).unwrap_or_default();
            for (_, count) in costs.iter().filter(|(cost, _)| cost.is_compute()) {
                sum += count.to_i64().unwrap_or(0).max(0) as usize;
            }
        }
        sum
    }

    /// Runs the network on as many rows as it takes, the inputs one after the other in `inputs`.
    pub(crate) fn run(&self, inputs: &[Vec<f32>], out: &mut Vec<f32>) -> Result<(), String> {
        let tensors = self.inputs.iter().zip(inputs);
        let tensors = tensors.map(|(input, values)| input.tensor(values));
        let tensors: TVec<TValue> = tensors.collect::<TractResult<_>>().map_err(told)?;
        let outputs = self.plan.run(tensors).map_err(told)?;
        let output = outputs.first().ok_or("gave nothing")?;
        let output = output.cast_to::<f32>().map_err(told)?;
        let values = output.as_slice::<f32>().map_err(told)?;
        if values.len() != self.rows * self.width {
            return Err(format!(
                "gave {} numbers, expected {} rows of {}",
                values.len(),
                self.rows,
                self.width
            ));
        }
        out.extend_from_slice(values);
        Ok(())
    }
}

fn told(error: TractError) -> String {
    format!("{error:#}")
}

impl PlanInput {
    fn new(input: &GraphInput, width: usize, rows: usize) -> Result<Self, String> {
        let kind = match input.kind {
            DataType::Float => DatumType::F32,
            DataType::Double => DatumType::F64,
            DataType::Int64 => DatumType::I64,
            DataType::Int32 => DatumType::I32,
            DataType::Bool => DatumType::Bool,
            other => return Err(format!("input `{}` is of type {other:?}", input.name)),
        };
        let known: usize = input.sizes.iter().flatten().product();
        let mut open = input.sizes.iter().filter(|size| size.is_none()).count();
        let mut shape = vec![rows];
        for size in &input.sizes {
            match size {
                Some(size) => shape.push(*size),
                None if open == 1 && known > 0 && width.is_multiple_of(known) => {
                    shape.push(width / known);
                    open = 0;
                }
                None => {
                    return Err(format!(
                        "input `{}` has open sizes, expected at most one beside the batch's",
                        input.name
                    ));
                }
            }
        }
        if !input.batched || shape[1..].iter().product::<usize>() != width {
            return Err(format!(
                "input `{}` has sizes {:?}, expected rows of {width}",
                input.name, input.sizes
            ));
        }
        Ok(Self { kind, shape, width })
    }

    fn tensor(&self, values: &[f32]) -> TractResult<TValue> {
        debug_assert_eq!(values.len(), self.shape[0] * self.width);
        let tensor = Tensor::from_shape(&self.shape, values)?;
        Ok(tensor.cast_to_dt(self.kind)?.into_owned().into_tvalue())
    }
}

fn build(graph: &Graph, inputs: &[PlanInput]) -> TractResult<TypedSimplePlan<TypedModel>> {
    let mut onnx = tract_onnx::onnx();
    onnx.op_register.insert(TREES, tree_operator::build);
    let mut graph = graph.clone();
    // An output that is an input has no node.
    if let Some(output) = graph.graph.output.first().map(|output| output.name.clone())
        && graph.producer(&output).is_none()
    {
        let same = format!("{output}/ostard/same");
        graph
            .graph
            .node
            .push(graph::node("Identity", &[&output], &same, vec![]));
        graph.graph.output[0].name = same;
    }
    let parsed = onnx.parse(&graph.proto(), None)?;
    let mut model = parsed.model;
    for (place, input) in inputs.iter().enumerate() {
        let fact = InferenceFact::dt_shape(input.kind, &input.shape);
        model.set_input_fact(place, fact)?;
    }
    model.into_optimized()?.into_runnable()
}

/// Operators of a rewritten graph that cannot be run.
pub(crate) fn missing_operators(graph: &Graph) -> Vec<String> {
    let known = tract_onnx::onnx().op_register.0;
    let operators = graph.operators().into_iter();
    operators
        .filter(|operator| operator != TREES && !known.contains_key(operator))
        .collect()
}
