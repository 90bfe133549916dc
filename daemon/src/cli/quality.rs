//! What `fit` and `import` say of a model: how good it is, and whether the labels fit the order of its classes.

use anyhow::{Result, bail};
use ostar_bundle::Bundle;
use ostar_engine::Rows;
use ostar_method::diagnostics::{Quality, check_class_order};

use crate::class_order::describe_order;

/// Accuracy, AUC and calibration on the held-out rows, in a line.
pub(super) fn describe_quality(bundle: &Bundle) -> Result<String> {
    let quality = Quality::measure(&bundle.deployed()?);
    let auc = quality
        .auc
        .map_or_else(String::new, |auc| format!(", AUC {auc:.4}"));
    Ok(format!(
        "held-out rows: {}, accuracy {:.4}{auc}, calibration error {:.4}, at temperature {:.2} {:.4}",
        quality.rows,
        quality.accuracy,
        quality.calibration_error,
        quality.temperature,
        quality.calibrated_error
    ))
}

/// Compares the order of the classes with the labels of these rows. An order that fits better is an error, to which `hint`
/// adds what to do, given the names in that order. Returns a line that says what the rows confirm.
pub(super) fn check_order(
    probabilities: Rows<'_>,
    labels: &[u32],
    names: &[String],
    hint: impl Fn(&str) -> String,
) -> Result<String> {
    let check = check_class_order(probabilities, labels)?;
    if let (Some(contradiction), Some(better)) =
        (check.contradiction(names), check.better_names(names))
    {
        bail!("{contradiction}; {}", hint(&better.join(",")));
    }
    Ok(describe_order(&check, names))
}
