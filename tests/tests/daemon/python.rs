//! A Python gRPC client that finds the services by reflection.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    gaussians,
    kafka::Kafka,
    python::{environment, output, script},
};
use serde_json::Value;

use ostar_harness::Place;

use crate::{Test, requests::Secrets, start};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "the_python_client_predicts_by_reflection_and_sees_the_health",
    python_client,
)];

fn python_client(kafka: &Kafka) -> Result<()> {
    let python = environment("python", "requirements.txt")?;
    let place = Place::new()?;
    let secrets = Secrets::write(place.path())?;
    kafka.create_topic("python", 1, &[])?;
    let settings = secrets.required_by(place.settings(kafka, "python", "state"));
    let daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    let address = daemon.address("grpc_address")?;
    let (rows, _) = gaussians::draw(1, 1.0, 0.0, 5);
    let ask = || {
        let mut command = Command::new(&python);
        command
            .arg(script("reflection_client.py"))
            .args(["--address", &address]);
        command.arg("--ca").arg(&secrets.certificate);
        command.args(["--latent", &serde_json::json!(rows[0]).to_string()]);
        command
    };
    let answer = output(ask().arg("--token-file").arg(&secrets.token))?;
    let answer: Value = serde_json::from_str(&answer).context("the script's output")?;
    let prediction = &answer["predictions"][0];
    ensure!(prediction["className"] == "spam", "{answer}");
    let probabilities = prediction["probabilities"].as_array();
    let sum: Option<f64> = probabilities.and_then(|all| all.iter().map(Value::as_f64).sum());
    ensure!(sum.is_some_and(|sum| (sum - 1.0).abs() < 1e-5), "{answer}");
    ensure!(answer["version"]["epoch"] == "1", "{answer}");

    let refused = output(&mut ask()).err().map(|error| error.to_string());
    ensure!(
        refused
            .as_ref()
            .is_some_and(|text| text.contains("UNAUTHENTICATED")),
        "without a token: {refused:?}"
    );
    daemon.stop_cleanly()
}
