//! An ONNX network as the rest of the crate sees it: from rows of inputs to rows of numbers.

use std::collections::HashMap;

use ostar_engine::{
    Error, FieldRows, Inputs, Result,
    architecture::{Gives, OnnxShape},
    evaluate::ExternalNetwork,
    inputs::is_missing,
    linear::softmax_rows,
};

use super::{
    graph::Graph,
    plan::{Plan, missing_operators},
    rewrite::{Rewritten, rewrite},
};
use crate::{
    fields::{FieldKind, FieldSchema},
    input::Input,
};

/// What an error offers where a model cannot be run.
pub(crate) const INSTEAD: &str =
    "run the model in your own service and send its `latent` or its `probabilities` as events";

/// Latents or predictions of an ONNX network that is run in this process. A row's numbers are the same, to the last bit,
/// whatever rows it is run with.
#[derive(Debug)]
pub struct OnnxNetwork {
    plan: Plan,
    gives: Gives,
    feeds: Feeds,
}

/// Where the network's inputs come from.
#[derive(Debug)]
enum Feeds {
    /// Pieces of one vector, of these widths.
    Vector { widths: Vec<usize>, width: usize },
    /// Fields, in the order of the network's inputs.
    Fields {
        fields: Vec<Feed>,
        numbers: usize,
        bags: usize,
        buckets: usize,
    },
}

#[derive(Debug)]
enum Feed {
    /// Place among the numbers, and what stands for a missing one.
    Number(usize, f32),
    /// Place among the bags, and what each token is in the graph.
    Category(usize, HashMap<u32, f32>),
}

impl OnnxNetwork {
    /// Reads the contents of `encoder.onnx`, whose events carry `input`.
    pub fn load(file: &[u8], shape: &OnnxShape, input: &Input) -> Result<Self> {
        let wrong = |problem: String| Error::setting("encoder.onnx", problem);
        let mut graph = Graph::read(file).map_err(wrong)?;
        if !graph.has(&shape.output) {
            return Err(wrong(format!("has no tensor `{}`", shape.output)));
        }
        graph.cut(&shape.output);
        Self::new(graph, shape.gives, input, Some(shape.rows), &shape.missing)
    }

    /// A network of a graph that has been cut. `rows` are chosen if none are given.
    pub(crate) fn new(
        graph: Graph,
        gives: Gives,
        input: &Input,
        rows: Option<usize>,
        missing: &[Option<f32>],
    ) -> Result<Self> {
        let wrong = |problem: String| Error::setting("encoder.onnx", problem);
        let rewritten =
            rewrite(graph).map_err(|problem| wrong(format!("{problem}; or {INSTEAD}")))?;
        let absent = missing_operators(&rewritten.graph);
        if !absent.is_empty() {
            return Err(wrong(format!(
                "has operators that cannot be run here: {}; {INSTEAD}",
                absent.join(", ")
            )));
        }
        let (feeds, widths) = Feeds::new(&rewritten, input, missing)?;
        let graph = &rewritten.graph;
        let plan = match rows {
            Some(rows @ 1..=4096) => Plan::new(graph, &widths, rows),
            Some(rows) => Err(format!("is run with {rows} rows, expected 1 to 4096")),
            None => Plan::for_any_rows(graph, &widths),
        };
        let plan = plan.map_err(|problem| wrong(format!("cannot be run: {problem}; {INSTEAD}")))?;
        Ok(Self { plan, gives, feeds })
    }

    /// Width of a row that comes out.
    pub fn width(&self) -> usize {
        match self.gives {
            Gives::Probability | Gives::Logit => 2,
            _ => self.plan.width(),
        }
    }

    /// Rows of one run.
    pub(crate) fn rows(&self) -> usize {
        self.plan.rows()
    }

    /// Appends what the tensor's numbers mean.
    fn finish(&self, values: &[f32], out: &mut Vec<f32>) {
        let start = out.len();
        match self.gives {
            Gives::Latents => out.extend_from_slice(values),
            // tract's logistic function leaves the range by a last bit.
            Gives::Probabilities => out.extend(values.iter().map(|p| p.clamp(0.0, 1.0))),
            Gives::Logits => {
                out.extend_from_slice(values);
                softmax_rows(&mut out[start..], self.plan.width());
            }
            Gives::Probability => {
                let shares = values.iter().map(|p| p.clamp(0.0, 1.0));
                out.extend(shares.flat_map(|p| [1.0 - p, p]));
            }
            Gives::Logit => {
                out.extend(values.iter().flat_map(|logit| [0.0, *logit]));
                softmax_rows(&mut out[start..], 2);
            }
        }
    }
}

impl ExternalNetwork for OnnxNetwork {
    fn run(&self, inputs: &Inputs<'_>, out: &mut Vec<f32>) -> Result<()> {
        let count = self.feeds.check(inputs)?;
        let (rows, width) = (self.plan.rows(), self.plan.width());
        let start = out.len();
        let mut values = Vec::with_capacity(rows * width);
        let mut fed: Vec<Vec<f32>> = Vec::new();
        for first in (0..count).step_by(rows) {
            let end = count.min(first + rows);
            self.feeds.fill(inputs, first..end, rows, &mut fed);
            values.clear();
            let run = self.plan.run(&fed, &mut values);
            run.map_err(|problem| {
                Error::setting("encoder.onnx", format!("cannot be run: {problem}"))
            })?;
            self.finish(&values[..(end - first) * width], out);
        }
        debug_assert_eq!(out.len() - start, count * self.width());
        Ok(())
    }
}

impl Feeds {
    /// Connects a graph's inputs with what events carry; also their widths.
    fn new(
        rewritten: &Rewritten,
        input: &Input,
        missing: &[Option<f32>],
    ) -> Result<(Self, Vec<usize>)> {
        let inputs = rewritten.graph.inputs();
        let wrong = |problem: String| Err(Error::setting("encoder.onnx", problem));
        match input {
            Input::Dense { width } => {
                let known: usize = inputs.iter().filter_map(|input| input.width()).sum();
                let open = inputs
                    .iter()
                    .filter(|input| input.width().is_none())
                    .count();
                let left = width.checked_sub(known);
                let fits = matches!((open, left), (0, Some(0)) | (1, Some(1..)));
                if !fits || inputs.is_empty() {
                    return wrong(format!(
                        "takes {known} numbers and {open} inputs of open width, expected {width} numbers"
                    ));
                }
                let widths = inputs
                    .iter()
                    .map(|input| input.width().unwrap_or(width - known));
                let widths: Vec<usize> = widths.collect();
                Ok((
                    Self::Vector {
                        widths: widths.clone(),
                        width: *width,
                    },
                    widths,
                ))
            }
            Input::Fields(schema) => {
                let fields = Self::fields(rewritten, schema, missing)?;
                let widths = vec![1; inputs.len()];
                let feeds = Self::Fields {
                    fields,
                    numbers: schema.numbers(),
                    bags: schema.bags(),
                    buckets: schema.buckets,
                };
                Ok((feeds, widths))
            }
            other => wrong(format!(
                "is there, expected none for events with {}",
                other.kind()
            )),
        }
    }

    fn fields(
        rewritten: &Rewritten,
        schema: &FieldSchema,
        missing: &[Option<f32>],
    ) -> Result<Vec<Feed>> {
        let inputs = rewritten.graph.inputs();
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        let fields: Vec<&str> = schema
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        if names != fields || missing.len() != schema.numbers() {
            return Err(Error::setting(
                "encoder.onnx",
                format!("takes {names:?}, expected the bundle's fields {fields:?}"),
            ));
        }
        let (mut numbers, mut bags) = (0, 0);
        let mut feeds = Vec::with_capacity(fields.len());
        for field in &schema.fields {
            feeds.push(match field.kind {
                FieldKind::Number { .. } => {
                    numbers += 1;
                    Feed::Number(numbers - 1, missing[numbers - 1].unwrap_or(f32::NAN))
                }
                FieldKind::Category | FieldKind::Text => {
                    bags += 1;
                    let tokens = schema.tokens(&field.name, &rewritten.categories)?;
                    let numbered = tokens.into_iter().zip(1..);
                    let places = numbered.map(|(token, number)| (token, number as f32));
                    Feed::Category(bags - 1, places.collect())
                }
            });
        }
        Ok(feeds)
    }

    /// Checks rows and counts them.
    fn check(&self, inputs: &Inputs<'_>) -> Result<usize> {
        match (self, inputs) {
            (Self::Vector { width, .. }, Inputs::Dense(rows)) => {
                rows.check("features", *width)?;
                Ok(rows.count())
            }
            (
                Self::Fields {
                    numbers,
                    bags,
                    buckets,
                    ..
                },
                Inputs::Fields(rows),
            ) => {
                let count = rows.count(*numbers, *bags);
                rows.check(count, *numbers, *bags, *buckets)?;
                Ok(count)
            }
            (Self::Vector { .. }, _) => Err(Error::shape("inputs", "dense rows", "named fields")),
            (Self::Fields { .. }, _) => Err(Error::shape("inputs", "named fields", "dense rows")),
        }
    }

    /// Replaces `fed` by the inputs of some rows, filled up with the first of them.
    fn fill(
        &self,
        inputs: &Inputs<'_>,
        rows: std::ops::Range<usize>,
        count: usize,
        fed: &mut Vec<Vec<f32>>,
    ) {
        let row_of = |place: usize| match rows.start + place {
            row if row < rows.end => row,
            _ => rows.start,
        };
        match (self, inputs) {
            (Self::Vector { widths, width }, Inputs::Dense(dense)) => {
                fed.resize(widths.len(), Vec::new());
                let mut start = 0;
                for (piece, values) in widths.iter().zip(fed) {
                    values.resize(count * piece, 0.0);
                    for (place, to) in values.chunks_exact_mut((*piece).max(1)).enumerate() {
                        dense.values().copy_f32(row_of(place) * width + start, to);
                    }
                    start += piece;
                }
            }
            (
                Self::Fields {
                    fields,
                    numbers,
                    bags,
                    ..
                },
                Inputs::Fields(all),
            ) => {
                fed.resize(fields.len(), Vec::new());
                for (feed, values) in fields.iter().zip(fed) {
                    values.clear();
                    values.extend(
                        (0..count).map(|place| feed.value(all, row_of(place), *numbers, *bags)),
                    );
                }
            }
            _ => unreachable!("`check` refuses other inputs"),
        }
    }
}

impl Feed {
    fn value(&self, rows: &FieldRows<'_>, row: usize, numbers: usize, bags: usize) -> f32 {
        match self {
            Self::Number(place, missing) => {
                let mut value = [0.0];
                rows.numbers.copy_f32(row * numbers + place, &mut value);
                if is_missing(value[0]) {
                    *missing
                } else {
                    value[0]
                }
            }
            Self::Category(place, known) => match rows.bag(row * bags + place) {
                [token] => known.get(token).copied().unwrap_or(0.0),
                // None, or several: no category that the model knows.
                _ => 0.0,
            },
        }
    }
}
