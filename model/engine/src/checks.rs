//! Checks of arguments and settings, whose errors name what is wrong. The engines share those of a step.

use crate::{
    Architecture, Error, Inputs, Result,
    engine::{Batch, ClassifierObjective, Diversity, RawBatch},
};

/// A list must have so many entries.
pub fn length(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::shape(what, format!("{expected} entries"), found))
}

/// The errors of checks, all of them.
pub fn problems<const N: usize>(checks: [Result<()>; N]) -> Vec<Error> {
    checks.into_iter().filter_map(Result::err).collect()
}

/// The first of several problems.
pub fn first(problems: Vec<Error>) -> Result<()> {
    problems.into_iter().next().map_or(Ok(()), Err)
}

/// A count in the settings that must not be 0.
pub fn not_zero(what: &str, value: usize) -> Result<()> {
    match value {
        0 => Err(Error::setting(what, "is 0, expected at least 1")),
        _ => Ok(()),
    }
}

/// A number in the settings that must be above another.
pub fn above(what: &str, value: f64, bound: f64) -> Result<()> {
    if value.is_finite() && value > bound {
        return Ok(());
    }
    let problem = format!("is {value}, expected a finite number above {bound}");
    Err(Error::setting(what, problem))
}

/// There must be a row.
pub fn at_least_one_row(what: &str, rows: usize) -> Result<()> {
    match rows {
        0 => Err(Error::shape(what, "at least one row", 0)),
        _ => Ok(()),
    }
}

/// One finite number for each class, 0 or more.
pub fn per_class(what: &str, values: &[f64], classes: usize) -> Result<()> {
    length(what, values.len(), classes)?;
    let is_valid = |value: f64| value.is_finite() && value >= 0.0;
    each(
        what,
        "class",
        values,
        is_valid,
        "a finite number, 0 or more",
    )
}

/// Every value must be valid. The error names the first that is not: `item` is what there is one value of.
pub fn each(
    what: &str,
    item: &str,
    values: &[f64],
    is_valid: impl Fn(f64) -> bool,
    expected: &str,
) -> Result<()> {
    match values.iter().position(|value| !is_valid(*value)) {
        None => Ok(()),
        Some(place) => {
            let problem = format!(
                "of {item} {place} is {}, expected {expected}",
                values[place]
            );
            Err(Error::setting(what, problem))
        }
    }
}

/// A weight must be finite, 0 or more.
pub fn weight(what: &str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::setting(
        what,
        format!("is {value}, expected a finite number, 0 or more"),
    ))
}

/// Every label must be a class.
pub fn labels(labels: &[u32], classes: usize) -> Result<()> {
    match labels.iter().position(|label| *label as usize >= classes) {
        None => Ok(()),
        Some(row) => Err(Error::Label {
            row,
            label: labels[row],
            classes,
        }),
    }
}

pub(crate) fn batch(batch: &Batch<'_>, source_rows: usize, target_rows: usize) -> Result<()> {
    at_least_one_row("batch", batch.source.len())?;
    length("batch.target", batch.target.len(), batch.source.len())?;
    let inside =
        |buffer, rows: &[u32], held: usize| match rows.iter().find(|row| **row as usize >= held) {
            None => Ok(()),
            Some(row) => Err(Error::RowOutOfRange {
                buffer,
                row: *row as usize,
                rows: held,
            }),
        };
    inside("source", batch.source, source_rows)?;
    inside("target", batch.target, target_rows)
}

/// Target rows may overwrite held rows or follow them, but must not leave a gap.
pub(crate) fn target_start(first: usize, held: usize) -> Result<()> {
    if first <= held {
        return Ok(());
    }
    Err(Error::RowOutOfRange {
        buffer: "target",
        row: first,
        rows: held,
    })
}

/// Positions of interpolates: one for each row, in [0, 1].
pub(crate) fn positions(positions: &[f64], rows: usize) -> Result<()> {
    length("positions", positions.len(), rows)?;
    match positions.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        None => Ok(()),
        Some(position) => Err(Error::setting(
            "positions",
            format!("contain {position}, expected numbers in [0, 1]"),
        )),
    }
}

pub(crate) fn objective(objective: &ClassifierObjective<'_>, classes: usize) -> Result<()> {
    per_class("class weight", objective.class_weights, classes)?;
    weight("cross_entropy_weight", objective.cross_entropy_weight)?;
    weight("entropy_weight", objective.entropy_weight)?;
    weight(
        "diversity.weight",
        objective.diversity.signed_weight().abs(),
    )?;
    match objective.diversity {
        Diversity::Divergence { proportions, .. } => {
            per_class("diversity.proportions", proportions, classes)
        }
        Diversity::None | Diversity::MarginalEntropy { .. } => Ok(()),
    }
}

/// Labelled inputs. Returns the number of rows.
pub fn labelled(
    inputs: &Inputs<'_>,
    label_values: &[u32],
    architecture: &Architecture,
) -> Result<usize> {
    inputs.check(architecture)?;
    let rows = inputs.count(architecture);
    at_least_one_row("inputs", rows)?;
    length("labels", label_values.len(), rows)?;
    labels(label_values, architecture.classes)?;
    Ok(rows)
}

/// Source and target inputs of the same size. Returns the number of rows of each.
pub(crate) fn raw_batch(batch: &RawBatch<'_>, architecture: &Architecture) -> Result<usize> {
    let rows = labelled(&batch.source, batch.labels, architecture)?;
    batch.target.check(architecture)?;
    length("target inputs", batch.target.count(architecture), rows)?;
    Ok(rows)
}

/// A loss that is NaN or infinite is an error: its gradients would ruin the parameters.
pub(crate) fn finite_loss(step: &'static str, loss: f64) -> Result<()> {
    if loss.is_finite() {
        return Ok(());
    }
    Err(Error::NonFiniteLoss { step, loss })
}
