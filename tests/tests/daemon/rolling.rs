//! A rolling restart of all scorers, seen by a client of theirs.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::Settings,
    free_port, gaussians,
    kafka::Kafka,
    python::{environment, script},
};
use serde_json::Value;

use ostar_harness::Place;

use crate::{Test, roles, start};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "a_rolling_restart_of_all_scorers_fails_no_request_of_a_client_that_retries",
    rolling,
)];

const SCORERS: usize = 3;
const RATE: f64 = 200.0;
const ANSWERED: &str = "ostar_requests_total{code=\"Ok\",method=\"Predict\"}";

fn rolling(kafka: &Kafka) -> Result<()> {
    let python = environment("python", "requirements.txt")?;
    let place = Place::new()?;
    roles::topics(kafka, "rolling")?;
    let learner = start(&roles::learner(&place, kafka, "rolling"))?;
    // A scorer that is started again has the address that clients know.
    let ports: Vec<_> = (0..SCORERS).map(|_| free_port()).collect();
    let settings: Vec<Settings> = ports
        .iter()
        .map(|port| {
            roles::scorer(&place, kafka, "rolling")
                .with("grpc.listen", &format!("127.0.0.1:{port}"))
                // On a busy machine requests may queue for long; this test is not about overload.
                .with("requests.max_wait", "10s")
        })
        .collect();
    let mut scorers = Vec::new();
    for settings in &settings {
        let scorer = start(settings)?;
        scorer.is_ready()?;
        scorers.push(scorer);
    }
    let (rows, _) = gaussians::draw(4_000, 0.6, 0.3, 7);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    roles::produce(kafka, "rolling", &events)?;

    let mut client = client(&python, &ports, &rows[0])?;
    let began = Instant::now();
    for scorer in &scorers {
        scorer.metric_reaches(ANSWERED, 100.0)?;
    }
    for (at, settings) in settings.iter().enumerate() {
        scorers.remove(0).stop_cleanly()?;
        let scorer = start(settings)?;
        scorer.is_ready().with_context(|| format!("scorer {at}"))?;
        scorers.push(scorer);
    }
    for scorer in &scorers {
        scorer.metric_reaches(ANSWERED, 100.0)?;
    }
    let took = began.elapsed().as_secs_f64();
    let told = finish(&mut client)?;
    let count = |key: &str| told[key].as_u64().with_context(|| told.to_string());
    let (sent, answered) = (count("sent")?, count("answered")?);
    ensure!(
        told["failed"] == serde_json::json!({}) && answered == sent,
        "{told}"
    );
    // A client that sends nothing fails nothing.
    ensure!(sent as f64 > 0.8 * RATE * took, "{sent} in {took} s");
    for scorer in scorers {
        scorer.stop_cleanly()?;
    }
    learner.stop_cleanly()
}

fn client(python: &std::path::Path, ports: &[u16], row: &[f32]) -> Result<Child> {
    let addresses: Vec<_> = ports
        .iter()
        .map(|port| format!("127.0.0.1:{port}"))
        .collect();
    let mut command = Command::new(python);
    command.arg(script("steady_client.py"));
    command.args(["--addresses", &addresses.join(",")]);
    command.args(["--rate", &RATE.to_string()]);
    command.args(["--latent", &serde_json::json!(row).to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.spawn().context("python")?;
    let mut first = String::new();
    let output = client.stdout.as_mut().context("no output")?;
    BufReader::with_capacity(1, output).read_line(&mut first)?;
    ensure!(first.trim() == "started", "the client says {first:?}");
    Ok(client)
}

/// Ends the client; what it says.
fn finish(client: &mut Child) -> Result<Value> {
    drop(client.stdin.take());
    let mut told = String::new();
    let output = client.stdout.as_mut().context("no output")?;
    output.read_to_string(&mut told)?;
    ensure!(client.wait()?.success(), "the client failed: {told}");
    serde_json::from_str(&told).with_context(|| told.clone())
}
