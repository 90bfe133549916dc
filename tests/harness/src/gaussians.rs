//! A small problem with two Gaussian classes, whose events are latents.

use std::path::Path;

use anyhow::Result;
use ostar_bundle::{Bundle, fit::FitSettings};
use ostar_engine::Generator;

use crate::fitted;

/// How many numbers a latent has.
pub const WIDTH: usize = 8;
/// Class names, in the order of the labels that [`draw`] gives.
pub const CLASSES: [&str; 2] = ["ham", "spam"];

/// Rows and their classes; `spam` is the proportion of class 1, `shift` is added to every number.
pub fn draw(rows: usize, spam: f64, shift: f32, seed: u64) -> (Vec<Vec<f32>>, Vec<u32>) {
    let mut generator = Generator::new(seed);
    let row = |_| {
        let class = u32::from(generator.uniform() < spam);
        let mean = 2.0 * f64::from(class) - 1.0;
        let values = (0..WIDTH).map(|_| (mean + generator.normal()) as f32 + shift);
        (values.collect(), class)
    };
    (0..rows).map(row).unzip()
}

/// Trains a classifier on 2,000 rows and writes its bundle to a folder.
pub fn write_bundle(folder: &Path) -> Result<Bundle> {
    let (rows, labels) = draw(2_000, 0.3, 0.0, 1);
    let classes = CLASSES.map(str::to_owned);
    let bundle = fitted::bundle(&rows, &labels, &classes, FitSettings::default())?;
    bundle.save(folder)?;
    Ok(bundle)
}

/// A latent as a raw event.
pub fn raw(row: &[f32]) -> Vec<u8> {
    row.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A latent as a JSON event.
pub fn json(id: &str, row: &[f32]) -> Vec<u8> {
    serde_json::json!({"id": id, "latent": row})
        .to_string()
        .into_bytes()
}

/// The same with a time of its own.
pub fn json_at(id: &str, row: &[f32], time_ms: i64) -> Vec<u8> {
    serde_json::json!({"id": id, "latent": row, "time_ms": time_ms})
        .to_string()
        .into_bytes()
}
