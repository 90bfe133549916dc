//! An event affects the state exactly once, also across crashes.

use anyhow::{Result, ensure};
use ostar_engine::tensors::from_safetensors;
use ostar_harness::{Place, daemon::newest_checkpoint, gaussians, promises};
use ostar_tests::kafka::Kafka;

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "twenty_kills_leave_the_state_of_an_uninterrupted_run_and_every_prediction",
        twenty_kills,
    ),
    (
        "four_partitions_fill_the_window_with_exactly_the_events_sent",
        four_partitions,
    ),
];

fn twenty_kills(kafka: &Kafka) -> Result<()> {
    for topic in ["kills", "kills-predictions"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    promises::kills_leave_the_state_of_an_uninterrupted_run_and_every_prediction(kafka, PROGRAM, 20)
}

fn four_partitions(kafka: &Kafka) -> Result<()> {
    const ROWS: usize = 2_000;
    let place = Place::new()?;
    kafka.create_topic("four", 4, &[])?;
    let (rows, _) = gaussians::draw(ROWS, 0.5, 0.0, 3);
    for partition in 0..4_i32 {
        let own = rows.iter().skip(partition as usize).step_by(4);
        kafka.produce("four", partition, own.map(|row| gaussians::raw(row)))?;
    }
    let settings = place
        .settings(kafka, "four", "state")
        .with("learner.method.window", "3000");
    let daemon = start(&settings)?;
    daemon.metric_reaches("ostar_learned_events_total", ROWS as f64)?;
    daemon.stop_cleanly()?;
    let (_, manifest, state) = newest_checkpoint(&place.checkpoints("state"))?;
    ensure!(
        manifest["position"]["learned"]
            == serde_json::json!({"0": 500, "1": 500, "2": 500, "3": 500})
    );

    let window = from_safetensors(&state)?["window"].to_f32();
    let bundle = ostar_bundle::Bundle::load(&place.path().join("bundle"))?;
    let encoder = bundle.encoder()?.expect("a model on latents has one");
    let mut expected = Vec::new();
    let values = rows.concat();
    let inputs =
        ostar_engine::Inputs::Dense(ostar_engine::Rows::new(&values[..], gaussians::WIDTH)?);
    encoder.encode(inputs, &mut Default::default(), &mut expected)?;
    ensure!(
        sorted(&window) == sorted(&expected),
        "the window holds other rows"
    );
    Ok(())
}

fn sorted(values: &[f32]) -> Vec<Vec<u32>> {
    let rows = values.chunks_exact(gaussians::WIDTH);
    let mut rows: Vec<Vec<u32>> = rows
        .map(|row| row.iter().map(|value| value.to_bits()).collect())
        .collect();
    rows.sort();
    rows
}
