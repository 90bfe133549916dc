//! What comparing the inputs with training costs the learner, a block of 500 events: a quarter of them is counted.
//!
//! `cargo run --release -p ostar-bundle --example input_cost`

#![expect(clippy::print_stdout, reason = "the figures are the result")]

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result};
use ostar_bundle::fit::{FitSettings, Labelled, LabelledRows, fit};
use ostar_engine::{Generator, Inputs, Rows};
use ostar_method::alarms::{AlarmSettings, Alarms, BlockStatistics};

const BLOCKS: u64 = 200;
/// Rows of a block that are counted.
const SAMPLED: usize = 125;

fn main() -> Result<()> {
    let mut random = Generator::new(1);
    for width in [5, 20, 100] {
        let mut rows = |count: usize| -> Vec<f32> {
            (0..count * width).map(|_| random.normal() as f32).collect()
        };
        let (training, sample) = (rows(1_000), rows(SAMPLED));
        let labels: Vec<u32> = (0..1_000).map(|row| row % 2).collect();
        let classes = ["a", "b"].map(str::to_owned);
        let labelled = Labelled {
            classes: &classes,
            labels: &labels,
            rows: LabelledRows::Dense(Rows::new(&training[..], width)?),
        };
        let settings = FitSettings {
            epochs: 1,
            ..FitSettings::default()
        };
        let bundle = fit(labelled, &settings, &mut |_| ())?;
        let profile = bundle.inputs().context("dense features have a profile")?;
        let training = bundle.description().training_proportions.clone();
        let mut alarms = Alarms::new(AlarmSettings::default(), training)
            .with_inputs(Some(Arc::new(profile.clone())));
        let start = Instant::now();
        for block in 1..=BLOCKS {
            let inputs = Inputs::Dense(Rows::new(&sample[..], width)?);
            alarms.count_inputs(inputs, SAMPLED);
            alarms.observe(BlockStatistics {
                block,
                shares: Some(&[0.5, 0.5]),
                intervals: None,
                shape: None,
            });
        }
        let each = start.elapsed().as_secs_f64() / BLOCKS as f64;
        println!(
            "{width} fields: {:.0} us a block, {:.2} us an event",
            1e6 * each,
            1e6 * each / 500.0
        );
    }
    Ok(())
}
