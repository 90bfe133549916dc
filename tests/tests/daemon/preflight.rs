//! `ostard config check --connect` finds what would stop a daemon, before it is deployed.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Settings, TIMEOUT},
    gaussians,
    kafka::{Kafka, Listener, Operation},
    until,
};

use ostar_harness::Place;

use crate::{PROGRAM, Test, roles, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_check_names_topics_that_may_not_be_used_and_is_content_when_they_may",
        permissions,
    ),
    (
        "a_check_finds_missing_topics_foreign_commits_and_brokers_that_do_not_answer",
        missing,
    ),
    (
        "a_check_of_a_scorer_or_learner_looks_at_the_topics_of_its_role",
        by_role,
    ),
];

/// Exit code, and the lines as (check, key, found).
type Outcome = (Option<i32>, Vec<(String, String, String)>);

fn check(settings: &Settings) -> Result<Outcome> {
    let output = Command::new(PROGRAM)
        .args(["config", "check", "--connect", "--timeout", "30s"])
        .args(settings.flags(""))
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = |line: &str| -> Result<(String, String, String)> {
        let (check, rest) = line.split_once(' ').context("a line of one word")?;
        let (key, found) = rest.trim().split_once(' ').context("no finding")?;
        let owned = |text: &str| text.trim().to_owned();
        Ok((owned(check), owned(key), owned(found)))
    };
    let lines: Result<Vec<_>> = text.lines().skip(1).map(line).collect();
    Ok((output.status.code(), lines?))
}

fn expect(outcome: &Outcome, check: &str, key: &str, part: &str) -> Result<()> {
    let (_, lines) = outcome;
    let found = lines
        .iter()
        .any(|(verdict, of, text)| verdict == check && of == key && text.contains(part));
    ensure!(found, "no {check} of {key} with {part:?}: {outcome:#?}");
    Ok(())
}

fn permissions(_plaintext: &Kafka) -> Result<()> {
    const PASSWORD: &str = "correct-horse";
    let kafka = Kafka::start(Listener::SaslSsl {
        user: "ostard".to_owned(),
        password: PASSWORD.to_owned(),
    })?;
    for topic in ["checked", "checked-predictions", "checked-letters"] {
        kafka.create_topic(topic, 2, &[])?;
    }
    kafka.configure_topic("checked-letters", &[("min.insync.replicas", "2")])?;
    kafka.allow("ostard", "checked", Operation::Describe)?;
    kafka.allow("ostard", "checked-predictions", Operation::Describe)?;
    let place = Place::new()?;
    let password = place.checkpoints("password");
    std::fs::write(&password, PASSWORD)?;
    let mut settings = place
        .settings(&kafka, "checked", "state")
        .with("kafka.brokers", &kafka.bootstrap())
        .with("predictions.topic", "checked-predictions")
        .with("dead_letters.topic", "checked-letters")
        .with("parked.file", "/no/such/folder/parked.jsonl")
        .with(
            "kafka.options_from_files.sasl.password",
            &password.display().to_string(),
        );
    for (option, value) in kafka.client_options() {
        settings = settings.with(&format!("kafka.options.{option}"), &value);
    }
    let outcome = check(&settings)?;
    ensure!(outcome.0 == Some(1), "{outcome:#?}");
    expect(&outcome, "ok", "kafka.brokers", "1 broker")?;
    expect(&outcome, "ok", "bundle.path", "2 classes")?;
    expect(&outcome, "ok", "checkpoints.folder", "can be created")?;
    expect(&outcome, "problem", "kafka.topic", "may not read")?;
    expect(&outcome, "problem", "predictions.topic", "may not write")?;
    expect(
        &outcome,
        "problem",
        "dead_letters.topic",
        "min.insync.replicas",
    )?;
    expect(&outcome, "problem", "parked.file", "folder does not exist")?;

    kafka.allow("ostard", "checked", Operation::Read)?;
    kafka.allow("ostard", "checked-predictions", Operation::Write)?;
    kafka.configure_topic("checked-letters", &[])?;
    let outcome = check(&settings.without("parked.file"))?;
    ensure!(outcome.0 == Some(0), "{outcome:#?}");
    expect(&outcome, "ok", "kafka.topic", "2 partitions, may be read")?;
    expect(&outcome, "ok", "predictions.topic", "may be written")?;
    expect(&outcome, "ok", "kafka.group", "commits of 0 partitions")?;
    // The check has left nothing behind.
    let left = place.checkpoints("state").exists();
    ensure!(!left, "the check has created checkpoints.folder");
    Ok(())
}

fn missing(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("surveyed", 1, &[])?;
    let settings = place
        .settings(kafka, "surveyed", "state")
        .with("predictions.topic", "surveyed-nowhere")
        .with("labels.topic", "surveyed-labels");
    let outcome = check(&settings)?;
    ensure!(outcome.0 == Some(1), "{outcome:#?}");
    expect(&outcome, "ok", "kafka.topic", "1 partition")?;
    expect(&outcome, "problem", "predictions.topic", "surveyed-nowhere")?;
    expect(&outcome, "problem", "labels.topic", "surveyed-labels")?;

    // A daemon of another folder has committed to the group.
    let (rows, _) = gaussians::draw(250, 0.5, 0.0, 3);
    kafka.produce("surveyed", 0, rows.iter().map(|row| gaussians::raw(row)))?;
    let plain = place.settings(kafka, "surveyed", "state");
    for name in ["state", "other"] {
        let folder = place.checkpoints(name).display().to_string();
        let settings = plain.clone().with("checkpoints.folder", &folder);
        let daemon = start(&settings.with("kafka.group", &format!("surveyed-{name}")))?;
        daemon.metric_is("ostar_learned_events_total", 250.0)?;
        daemon.stop_cleanly()?;
    }
    let taken = plain.with("kafka.group", "surveyed-other");
    let outcome = check(&taken)?;
    ensure!(outcome.0 == Some(1), "{outcome:#?}");
    expect(&outcome, "problem", "kafka.group", "by another writer")?;

    let outcome = check(&taken.with("kafka.brokers", "127.0.0.1:1"))?;
    ensure!(outcome.0 == Some(1), "{outcome:#?}");
    expect(&outcome, "problem", "kafka.brokers", "127.0.0.1:1")?;
    Ok(())
}

fn by_role(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("ruled", 2, &[])?;
    let (scorer, learner) = (
        roles::scorer(&place, kafka, "ruled"),
        roles::learner(&place, kafka, "ruled"),
    );
    let outcome = check(&scorer)?;
    ensure!(outcome.0 == Some(1), "{outcome:#?}");
    expect(&outcome, "ok", "kafka.topic", "2 partitions")?;
    for key in ["samples.topic", "checkpoints.topic"] {
        expect(&outcome, "problem", key, "`ostard topics apply` makes it")?;
    }
    for topic in ["ruled-predictions", "ruled-parked"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    // Not as `topics apply` makes them.
    kafka.create_topic("ruled-samples", 3, &[])?;
    kafka.create_topic("ruled-state", 1, &[])?;
    let outcome = check(&learner)?;
    ensure!(outcome.0 == Some(0), "{outcome:#?}");
    expect(
        &outcome,
        "warning",
        "samples.topic",
        "partitions is 3, should be 1",
    )?;
    expect(
        &outcome,
        "warning",
        "checkpoints.topic",
        "cleanup.policy is delete",
    )?;
    let is_about_events = |(_, key, _): &(String, String, String)| key == "kafka.topic";
    ensure!(!outcome.1.iter().any(is_about_events), "{outcome:#?}");

    // Scorers of the same bundle share the group.
    let daemon = start(&scorer)?;
    let (rows, _) = gaussians::draw(250, 0.5, 0.0, 3);
    kafka.produce("ruled", 0, rows.iter().map(|row| gaussians::raw(row)))?;
    until("predictions", TIMEOUT, || {
        Ok((kafka.end("ruled-predictions")? >= 250).then_some(()))
    })?;
    daemon.stop_cleanly()?;
    let outcome = check(&scorer)?;
    ensure!(outcome.0 == Some(0), "{outcome:#?}");
    expect(&outcome, "ok", "kafka.group", "commits of")
}
