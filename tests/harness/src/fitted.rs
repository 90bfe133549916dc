//! Bundles of classifiers that are trained on latents.

use anyhow::Result;
use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::Rows;

/// Trains for five epochs, which is enough for Gaussian classes.
pub fn bundle(
    rows: &[Vec<f32>],
    labels: &[u32],
    classes: &[String],
    settings: FitSettings,
) -> Result<Bundle> {
    let width = rows.first().map_or(0, Vec::len);
    let values = rows.concat();
    let labelled = Labelled {
        classes,
        labels,
        rows: LabelledRows::Latents(Rows::new(&values[..], width)?),
    };
    let settings = FitSettings {
        epochs: 5,
        ..settings
    };
    Ok(fit(labelled, &settings, &mut |_| ())?)
}
