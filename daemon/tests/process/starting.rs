//! What the log says first: what this process is.

use anyhow::{Context, Result, ensure};
use ostar_bundle::Bundle;
use serde_json::{Value, json};

use crate::{Daemon, PROGRAM, Place, broker};

/// Checks fields of a log entry.
fn has(entry: &Value, expected: &Value) -> Result<()> {
    let expected = expected.as_object().context("fields")?;
    for (field, value) in expected {
        ensure!(entry[field] == *value, "{field} of {entry:#}");
    }
    Ok(())
}

#[test]
fn the_log_says_what_the_process_is_in_every_role() -> Result<()> {
    let mock = broker(&["said", "said-labels"]);
    let place = Place::new()?;
    let bundle = Bundle::load(&place.path().join("bundle"))?;
    let all = place
        .settings(&mock, "said", "state")
        .with("grpc.control_listen", "127.0.0.1:0")
        .with("labels.topic", "said-labels")
        .with("serving.mode", "prior")
        .with("serving.objective", "probability");
    // Nobody answers these two, and they say it none the less.
    let split = |role| {
        all.clone()
            .with("kafka.brokers", "127.0.0.1:1")
            .with("role", role)
            .with("checkpoints.store", "kafka")
            .with("checkpoints.topic", "said-state")
            .with("samples.topic", "said-samples")
    };
    let folder = format!("folder {}", place.checkpoints("state").display());
    for (settings, role, topic, state) in [
        (all.clone(), "all", "said", folder.as_str()),
        (split("scorer"), "scorer", "said", "topic said-state"),
        (
            split("learner"),
            "learner",
            "said-samples",
            "topic said-state",
        ),
    ] {
        let daemon = Daemon::start(PROGRAM, &settings)?;
        let expected = json!({
            "role": role,
            "topic": topic,
            "group": "said-state",
            "bundle": bundle.description().name,
            "digest": bundle.digest(),
            "state": state,
            "mode": "prior",
            "objective": "probability",
            "labels": "said-labels",
        });
        has(&daemon.logged("starting")?, &expected)?;
        for listener in ["grpc_address", "http_address", "control_address"] {
            let address = daemon.address(listener)?;
            ensure!(address.starts_with("127.0.0.1:"), "{listener} {address}");
        }
        if role == "all" {
            let expected = json!({"epoch": 1, "topic": topic, "device": "cpu"});
            has(&daemon.logged("learning from the stream")?, &expected)?;
        }
        daemon.stop_cleanly()?;
    }
    Ok(())
}
