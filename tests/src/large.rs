//! The problem of the benchmarks: ten classes in 128 dimensions, and a classifier with two hidden layers.

use std::path::Path;

use anyhow::Result;
use ostar_bundle::fit::FitSettings;
use ostar_connectors::proto::{self, input::Kind};
use ostar_engine::{
    Generator,
    architecture::{ClassifierShape, Norm},
};
use ostar_harness::fitted;

/// How many numbers a latent has.
pub const WIDTH: usize = 128;
/// How many classes there are.
pub const CLASSES: usize = 10;

/// Rows and their classes. Classes take turns, each with its own mean; `shift` is added to every number.
pub fn draw(rows: usize, shift: f32, seed: u64) -> (Vec<Vec<f32>>, Vec<u32>) {
    let mut generator = Generator::new(seed);
    let row = |number| {
        let class = number % CLASSES;
        let mean = |column| if column % CLASSES == class { 1.0 } else { 0.0 };
        let values = (0..WIDTH).map(|column| (mean(column) + generator.normal()) as f32 + shift);
        (values.collect(), class as u32)
    };
    (0..rows).map(row).unzip()
}

/// Trains a classifier of widths 128-100-100-10 and writes its bundle to a folder.
pub fn write_bundle(folder: &Path) -> Result<()> {
    let (rows, labels) = draw(4_000, 0.0, 1);
    let classes: Vec<String> = (0..CLASSES).map(|class| format!("class-{class}")).collect();
    let settings = FitSettings {
        classifier: ClassifierShape {
            hidden: vec![100, 100],
            norm: Norm::None,
            dropout: 0.0,
        },
        ..FitSettings::default()
    };
    fitted::bundle(&rows, &labels, &classes, settings)?.save(folder)?;
    Ok(())
}

/// A latent as a request's or an event's input.
pub fn input(row: &[f32]) -> proto::Input {
    let values = row.to_vec();
    proto::Input {
        kind: Some(Kind::Latent(proto::Vector { values })),
    }
}
