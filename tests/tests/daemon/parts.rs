//! A part that dies ends the process.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings, TIMEOUT},
    gaussians,
    kafka::Kafka,
    until,
};
use serde_json::Value;

use ostar_harness::Place;

use crate::{Alone, PROGRAM, roles};

pub(crate) const TESTS: &[(&str, Alone)] = &[
    (
        "a_panic_in_any_part_ends_the_process_with_its_name_within_two_seconds",
        panics,
    ),
    (
        "a_panic_in_any_part_of_a_scorer_or_learner_ends_the_process_with_its_name_within_two_seconds",
        panics_by_role,
    ),
];

/// Every part, and what the error calls it.
const PARTS: [(&str, &str); 15] = [
    ("ingest", "ingest thread"),
    ("emission", "emission thread"),
    ("commits", "commits thread"),
    ("learner", "learner thread"),
    ("labels", "labels thread"),
    ("label requests", "label requests thread"),
    ("scoring thread", "scoring-0 thread"),
    ("gRPC listener", "gRPC listener"),
    ("control listener", "control listener"),
    ("HTTP listener", "HTTP listener"),
    ("gRPC health service", "gRPC health service"),
    ("connection watchdog", "connection watchdog"),
    ("live page", "live page"),
    ("token files", "token files"),
    ("TLS files", "TLS files"),
];

/// From the panic to the end of the process.
const LIMIT: Duration = Duration::from_secs(2);

fn panics(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    for topic in ["parts", "parts-labels", "parts-asked", "parts-predictions"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    let (rows, _) = gaussians::draw(500, 0.5, 0.0, 3);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    kafka.produce("parts", 0, &events)?;
    let secrets = crate::requests::Secrets::write(place.path())?;
    for (number, (part, name)) in PARTS.into_iter().enumerate() {
        let mut settings = place
            .settings(kafka, "parts", &format!("state-{number}"))
            .with("predictions.topic", "parts-predictions")
            .with("labels.topic", "parts-labels")
            .with("labels.requests.topic", "parts-asked")
            .with("grpc.control_listen", "127.0.0.1:0");
        if part == "TLS files" {
            settings = secrets.required_by(settings);
        }
        dies(&settings, part, name)?;
    }
    Ok(())
}

/// Parts of a scorer. Its listeners are those of every process.
const SCORER: [&str; 4] = ["ingest", "emission", "commits", "state"];
const LEARNER: [&str; 4] = ["samples", "learner", "leadership", "state"];

fn panics_by_role(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    roles::topics(kafka, "dying")?;
    let (rows, _) = gaussians::draw(500, 0.5, 0.0, 3);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    kafka.produce("dying", 0, &events)?;
    for part in SCORER {
        dies(
            &roles::scorer(&place, kafka, "dying"),
            part,
            &format!("{part} thread"),
        )?;
    }
    for part in LEARNER {
        dies(
            &roles::learner(&place, kafka, "dying"),
            part,
            &format!("{part} thread"),
        )?;
    }
    Ok(())
}

/// Starts a daemon whose part panics, and checks how it ends.
fn dies(settings: &Settings, part: &str, name: &str) -> Result<()> {
    let panic = format!("{part}=panic");
    let variables = [("FAILPOINTS", &panic[..])];
    let mut daemon = Daemon::start_with(PROGRAM, settings, &variables)?;
    let panicked = format!("failpoint {part} panic");
    until(&panicked, TIMEOUT, || {
        let log = daemon.log();
        let is_it = |line: &Value| line.as_str().is_some_and(|line| line.contains(&panicked));
        Ok(log.iter().any(is_it).then_some(()))
    })
    .with_context(|| format!("the log is {:#?}", daemon.log()))?;
    let start = Instant::now();
    let status = daemon.wait()?;
    let took = start.elapsed();
    ensure!(status.code() == Some(1), "{part}: {status}");
    ensure!(took < LIMIT, "{part}: {took:?}");
    let expected = format!("the {name} failed: panicked");
    let is_told = |line: &Value| {
        let line = line.as_str().unwrap_or_default();
        line.starts_with("error: ") && line.contains(&expected)
    };
    until(&expected, TIMEOUT, || {
        Ok(daemon.log().iter().any(is_told).then_some(()))
    })
    .with_context(|| format!("the log is {:#?}", daemon.log()))?;
    Ok(())
}
