//! Outputs that the broker refuses: for good, or for now. None is lost, and none that was acknowledged is sent again.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Daemon, TIMEOUT},
    gaussians,
    kafka::Kafka,
    until,
};
use serde_json::Value;

use ostar_harness::Place;

use crate::{Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_dead_letter_with_a_huge_key_is_cut_and_the_stream_goes_on",
        huge_key,
    ),
    (
        "refused_dead_letters_are_parked_and_no_prediction_is_sent_twice",
        refused_letters,
    ),
    (
        "a_topic_that_refuses_every_prediction_does_not_hold_the_stream_up",
        every_prediction,
    ),
    (
        "a_predictions_topic_that_is_gone_is_waited_for_and_nothing_is_lost",
        topic_gone,
    ),
    (
        "a_full_parking_file_stops_reading_until_it_is_moved_away",
        full_parking,
    ),
    ("outputs_are_parked_when_their_patience_ends", patience_ends),
    (
        "lag_is_true_while_reading_waits_for_outputs",
        lag_while_waiting,
    ),
];

const LEARNED: &str = "ostar_learned_events_total";

fn delivered(output: &str, outcome: &str) -> String {
    format!("ostar_output_records_total{{outcome=\"{outcome}\",output=\"{output}\"}}")
}

fn good_events(count: usize) -> Vec<Vec<u8>> {
    let (rows, _) = gaussians::draw(count, 0.4, 0.1, 5);
    rows.iter().map(|row| gaussians::json("", row)).collect()
}

fn parked_lines(path: &Path) -> Result<Vec<Value>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

fn conditions(daemon: &Daemon) -> Result<Value> {
    let (_, body) = daemon.get("/state")?;
    let status: Value = serde_json::from_str(&body).with_context(|| body.clone())?;
    Ok(status["conditions"].clone())
}

fn huge_key(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("huge-key", 1, &[("max.message.bytes", "20000000")])?;
    kafka.create_topic("huge-key-letters", 1, &[])?;
    kafka.produce_keyed("huge-key", &vec![b'k'; 950_000], &vec![b'x'; 90_000])?;
    kafka.produce("huge-key", 0, good_events(250))?;
    let settings = place
        .settings(kafka, "huge-key", "state")
        .with("events.format", "json")
        .with("dead_letters.topic", "huge-key-letters");
    let daemon = start(&settings)?;
    daemon.metric_reaches(LEARNED, 250.0)?;
    daemon.metric_reaches(&delivered("dead_letters", "delivered"), 1.0)?;
    daemon.stop_cleanly()?;
    let sizes = kafka.header_values("huge-key-letters", "ostar-key-size")?;
    ensure!(sizes == ["950000"], "{sizes:?}");
    Ok(())
}

/// One event in a hundred is bad. Half of the letters are too large for their topic, half only together.
fn refused_letters(kafka: &Kafka) -> Result<()> {
    const EVENTS: usize = 5_000;
    let place = Place::new()?;
    kafka.create_topic("refused", 1, &[])?;
    kafka.create_topic("refused-predictions", 1, &[])?;
    kafka.create_topic("refused-letters", 1, &[("max.message.bytes", "1000")])?;
    let mut events = Vec::new();
    for (number, event) in good_events(EVENTS).into_iter().enumerate() {
        match number % 200 {
            0 => events.push(vec![b'x'; 5_000]),
            100 => events.push(b"no event".to_vec()),
            _ => {}
        }
        events.push(event);
    }
    kafka.produce("refused", 0, &events)?;
    let settings = place
        .settings(kafka, "refused", "state")
        .with("events.format", "json")
        .with("predictions.topic", "refused-predictions")
        .with("dead_letters.topic", "refused-letters");
    let daemon = start(&settings)?;
    daemon.metric_reaches(LEARNED, EVENTS as f64)?;
    let predicted = delivered("predictions", "delivered");
    daemon.metric_reaches(&predicted, EVENTS as f64)?;
    daemon.metric_is(&delivered("dead_letters", "parked"), 25.0)?;
    daemon.metric_is(&delivered("dead_letters", "delivered"), 25.0)?;
    let (status, body) = daemon.get("/readyz")?;
    ensure!(status == 200, "{body}");
    let terminated = Instant::now();
    daemon.stop_cleanly()?;
    let took = terminated.elapsed();
    ensure!(took < Duration::from_secs(5), "stopping took {took:?}");

    let offsets = kafka.header_values("refused-predictions", "ostar-offset")?;
    ensure!(offsets.len() == EVENTS, "{} predictions", offsets.len());
    let letters = kafka.header_values("refused-letters", "ostar-offset")?;
    ensure!(letters.len() == 25, "{} letters", letters.len());
    let parked = parked_lines(&place.checkpoints("state").join("parked.jsonl"))?;
    ensure!(parked.len() == 25, "{} parked", parked.len());
    for line in &parked {
        ensure!(line["output"] == "dead_letters", "{line}");
        let reason = line["reason"].as_str().unwrap_or_default();
        ensure!(reason.contains("too large"), "{line}");
    }
    Ok(())
}

/// Too many to be tried one by one: a producer takes a new epoch after each refusal, some twenty a second.
fn every_prediction(kafka: &Kafka) -> Result<()> {
    const EVENTS: usize = 20_000;
    let place = Place::new()?;
    kafka.create_topic("narrow", 1, &[])?;
    kafka.create_topic("narrow-predictions", 1, &[("max.message.bytes", "50")])?;
    kafka.create_topic("narrow-parked", 1, &[])?;
    kafka.produce("narrow", 0, good_events(EVENTS))?;
    let settings = place
        .settings(kafka, "narrow", "state")
        .with("events.format", "json")
        .with("learner.steps_per_block", "0")
        .with("predictions.topic", "narrow-predictions")
        .with("parked.topic", "narrow-parked");
    let daemon = start(&settings)?;
    daemon.metric_is(&delivered("predictions", "parked"), EVENTS as f64)?;
    // The limit is raised: that is found out without a restart.
    kafka.configure_topic("narrow-predictions", &[])?;
    until("a prediction", TIMEOUT, || {
        kafka.produce("narrow", 0, good_events(10))?;
        let predicted = daemon.metric(&delivered("predictions", "delivered"))?;
        Ok((predicted >= Some(1.0)).then_some(()))
    })?;
    daemon.stop_cleanly()?;
    let parked = kafka.header_values("narrow-parked", "ostar-reason")?;
    ensure!(parked.len() >= EVENTS, "{}", parked.len());
    ensure!(parked.iter().all(|reason| reason.contains("too large")));
    Ok(())
}

fn topic_gone(kafka: &Kafka) -> Result<()> {
    const EVENTS: usize = 2_000;
    let place = Place::new()?;
    kafka.create_topic("gone", 1, &[])?;
    kafka.create_topic("gone-predictions", 1, &[])?;
    let events = good_events(EVENTS);
    let settings = place
        .settings(kafka, "gone", "state")
        .with("events.format", "json")
        .with("predictions.topic", "gone-predictions")
        // The client notices sooner that the topic is gone, and that it is back.
        .with("kafka.options.topic_metadata_refresh_interval_ms", "500")
        .with("kafka.options.topic_metadata_propagation_max_ms", "1000");
    let mut daemon = start(&settings)?;
    kafka.produce("gone", 0, &events[..EVENTS / 2])?;
    let predicted = delivered("predictions", "delivered");
    daemon.metric_is(&predicted, EVENTS as f64 / 2.0)?;
    kafka.delete_topic("gone-predictions")?;
    // Before, the daemon ended a few seconds after the first event that it could not send.
    for piece in events[EVENTS / 2..].chunks(EVENTS / 20) {
        kafka.produce("gone", 0, piece)?;
        thread::sleep(Duration::from_secs(1));
        ensure!(daemon.is_running()?, "ended: {:#?}", daemon.log());
    }
    daemon.metric_is("ostar_condition{condition=\"outputs\"}", 1.0)?;
    let (status, body) = daemon.get("/readyz")?;
    ensure!(
        status == 200 && body.contains("outputs: "),
        "{status} {body}"
    );
    let told = conditions(&daemon)?;
    ensure!(told["outputs"].as_str().is_some(), "{told}");

    kafka.create_topic("gone-predictions", 1, &[])?;
    daemon.metric_is(&predicted, EVENTS as f64)?;
    daemon.metric_is("ostar_condition{condition=\"outputs\"}", 0.0)?;
    daemon.metric_reaches(LEARNED, EVENTS as f64)?;
    daemon.stop_cleanly()?;
    let mut offsets = kafka.header_values("gone-predictions", "ostar-offset")?;
    ensure!(offsets.len() == EVENTS / 2, "{} again", offsets.len());
    offsets.sort();
    offsets.dedup();
    ensure!(offsets.len() == EVENTS / 2, "{} different", offsets.len());
    Ok(())
}

fn full_parking(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("full", 1, &[])?;
    kafka.create_topic("full-letters", 1, &[("max.message.bytes", "1000")])?;
    // Thirty letters of 65 kB, in Base64: more than the file may hold.
    let mut events = vec![vec![b'x'; 70_000]; 30];
    events.extend(good_events(250));
    kafka.produce("full", 0, &events)?;
    let settings = place
        .settings(kafka, "full", "state")
        .with("events.format", "json")
        .with("dead_letters.topic", "full-letters")
        .with("parked.max_bytes", "1000000");
    let daemon = start(&settings)?;
    daemon.metric_is("ostar_condition{condition=\"outputs\"}", 1.0)?;
    let told = conditions(&daemon)?["outputs"].to_string();
    ensure!(told.contains("parked.jsonl"), "{told}");
    ensure!(daemon.get("/readyz")?.0 == 200);
    let file = place.checkpoints("state").join("parked.jsonl");
    let moved = place.checkpoints("moved.jsonl");
    fs::rename(&file, &moved)?;
    daemon.metric_is(&delivered("dead_letters", "parked"), 22.0)?;
    let again = place.checkpoints("again.jsonl");
    fs::rename(&file, &again)?;
    daemon.metric_is(&delivered("dead_letters", "parked"), 30.0)?;
    daemon.metric_is("ostar_condition{condition=\"outputs\"}", 0.0)?;
    daemon.stop_cleanly()?;
    let mut offsets = Vec::new();
    for path in [&moved, &again, &file] {
        for line in parked_lines(path)? {
            offsets.push(line["offset"].as_i64().context("no offset")?);
        }
    }
    offsets.sort();
    ensure!(offsets == (0..30).collect::<Vec<_>>(), "{offsets:?}");
    Ok(())
}

fn patience_ends(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("impatient", 1, &[])?;
    kafka.create_topic("impatient-parked", 1, &[])?;
    kafka.produce("impatient", 0, good_events(250))?;
    let settings = place
        .settings(kafka, "impatient", "state")
        .with("events.format", "json")
        // This topic does not exist, and the broker does not create topics.
        .with("predictions.topic", "impatient-predictions")
        .with("parked.topic", "impatient-parked")
        .with("outputs.patience", "2s")
        .with("kafka.options.topic_metadata_propagation_max_ms", "500");
    let daemon = start(&settings)?;
    daemon.metric_is(&delivered("predictions", "parked"), 250.0)?;
    daemon.stop_cleanly()?;
    let values = kafka.values("impatient-parked")?;
    ensure!(values.len() == 250, "{} parked", values.len());
    let line: Value = serde_json::from_slice(&values[0])?;
    ensure!(line["output"] == "predictions", "{line}");
    Ok(())
}

fn lag_while_waiting(kafka: &Kafka) -> Result<()> {
    const EVENTS: usize = 60_000;
    let place = Place::new()?;
    kafka.create_topic("waiting", 1, &[])?;
    let (rows, _) = gaussians::draw(1_000, 0.5, 0.0, 3);
    let events = rows.iter().cycle().map(|row| gaussians::raw(row));
    kafka.produce("waiting", 0, events.clone().take(EVENTS))?;
    let settings = place
        .settings(kafka, "waiting", "state")
        // This topic does not exist, and the broker does not create topics.
        .with("predictions.topic", "waiting-predictions")
        .with("kafka.metadata_refresh", "500ms");
    let daemon = start(&settings)?;
    let waiting = "ostar_waiting_chunks{part=\"outputs\"}";
    daemon.metric_is(waiting, 16.0)?;
    // Lag is measured once a second, and may be older than the last chunk that was read.
    let lag_of = |written: usize| {
        until("the lag of what is not read", TIMEOUT, || {
            let lag = daemon.metric("ostar_consumer_lag_records{partition=\"0\"}")?;
            let read = daemon.metric("ostar_events_total{outcome=\"accepted\"}")?;
            let is_true = lag
                .zip(read)
                .is_some_and(|(lag, read)| lag + read == written as f64);
            Ok(lag.filter(|_| is_true))
        })
    };
    let lag = lag_of(EVENTS)?;
    ensure!(lag >= 10_000.0, "{lag}");
    kafka.produce("waiting", 0, events.take(7))?;
    lag_of(EVENTS + 7)?;
    ensure!(daemon.metric(waiting)? == Some(16.0));
    daemon.stop_cleanly()
}
