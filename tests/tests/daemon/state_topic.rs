//! What is learned, kept in a topic instead of a folder.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use ostar_engine::Generator;
use ostar_harness::Place;
use ostar_tests::{
    daemon::{Settings, TIMEOUT, checkpoint_reaches, newest_checkpoint},
    gaussians,
    kafka::Kafka,
    state, until,
};

use crate::{Alone, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "with_the_state_in_a_topic_kills_leave_the_state_of_an_uninterrupted_run_with_a_folder",
        kills,
    ),
    (
        "a_shorter_state_removes_the_chunks_of_a_longer_one_and_the_topic_does_not_grow",
        bounded_topic,
    ),
];

pub(crate) const ALONE: &[(&str, Alone)] = &[(
    "a_learner_that_was_stopped_for_too_long_writes_nothing_more_and_ends_with_a_word",
    zombie,
)];

const EVENTS: usize = 5_000;
const SESSION: Duration = Duration::from_secs(3);

/// Keeps what is learned in the topic `NAME-state`.
fn in_topic(place: &Place, kafka: &Kafka, name: &str) -> Settings {
    place
        .settings(kafka, name, "none")
        .without("checkpoints.folder")
        .with("checkpoints.store", "kafka")
        .with("checkpoints.topic", &format!("{name}-state"))
        .with("checkpoints.session_timeout", "3s")
}

fn kills(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("topical", 1, &[])?;
    kafka.create_topic("topical-state", 1, &state::TOPIC)?;
    let (rows, _) = gaussians::draw(EVENTS, 0.6, 0.3, 7);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let settings = in_topic(&place, kafka, "topical");
    let mut generator = Generator::new(5);
    for piece in events.chunks(EVENTS / 5) {
        let daemon = start(&settings)?;
        kafka.produce("topical", 0, piece)?;
        daemon.logged("learning from the stream")?;
        thread::sleep(Duration::from_millis(generator.below(1_000) as u64));
        daemon.kill()?;
    }
    let daemon = start(&settings)?;
    state::reaches(kafka, "topical-state", EVENTS as u64)
        .with_context(|| format!("the log is {:#?}", daemon.log()))?;
    daemon.stop_cleanly()?;

    let whole = start(&place.settings(kafka, "topical", "whole"))?;
    checkpoint_reaches(&place.checkpoints("whole"), EVENTS)?;
    whole.stop_cleanly()?;
    let (_, manifest, bytes) = newest_checkpoint(&place.checkpoints("whole"))?;
    let kept = state::checkpoint(kafka, "topical-state")?.context("no checkpoint in the topic")?;
    state::same_learning(kept, (manifest, bytes))
}

fn zombie(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("zombie", 1, &[])?;
    kafka.create_topic("zombie-state", 1, &state::TOPIC)?;
    let (rows, _) = gaussians::draw(3_000, 0.6, 0.3, 7);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let settings = in_topic(&place, kafka, "zombie");
    let mut first = start(&settings)?;
    kafka.produce("zombie", 0, &events[..1_000])?;
    state::reaches(kafka, "zombie-state", 1_000)?;
    let second = start(&settings)?;
    second.metric_is("ostar_standby", 1.0)?;
    // The standby serves what the first publishes.
    for version in ["ostar_model_version_epoch", "ostar_model_version_step"] {
        until(version, TIMEOUT, || {
            Ok((second.metric(version)? == first.metric(version)?).then_some(()))
        })?;
    }
    second.is_ready()?;

    kafka.produce("zombie", 0, &events[1_000..2_000])?;
    first.metric_reaches("ostar_learned_events_total", 1_250.0)?;
    first.freeze()?;
    let frozen = Instant::now();
    second.logged("learning from the stream")?;
    let took = frozen.elapsed();
    ensure!(
        took < SESSION + Duration::from_secs(5),
        "takeover took {took:?}"
    );
    kafka.produce("zombie", 0, &events[2_000..])?;
    first.thaw()?;
    let ended = first.wait()?;
    let told = format!("{:?}", first.log());
    ensure!(ended.code() == Some(5), "{ended}: {told}");
    ensure!(told.contains("another learner has taken over"), "{told}");
    state::reaches(kafka, "zombie-state", 3_000)?;
    second.stop_cleanly()?;

    // From the successor's first record on, every record is the successor's.
    let lives = state::handovers(kafka, "zombie-state")?;
    let epochs: Vec<u64> = lives.iter().map(|(epoch, ..)| *epoch).collect();
    ensure!(epochs == [1, 2], "{lives:?}");

    let whole = start(&place.settings(kafka, "zombie", "whole"))?;
    checkpoint_reaches(&place.checkpoints("whole"), 3_000)?;
    whole.stop_cleanly()?;
    let (_, manifest, bytes) = newest_checkpoint(&place.checkpoints("whole"))?;
    let kept = state::checkpoint(kafka, "zombie-state")?.context("no checkpoint in the topic")?;
    state::same_learning(kept, (manifest, bytes))
}

/// The writer and its followers alone: thousands of publications, as hours of learning bring them.
fn bounded_topic(kafka: &Kafka) -> Result<()> {
    use ostar_connectors::{
        checkpoint::{Identity, Manifest, Version},
        kafka::{
            KafkaSettings,
            state::{Publication, StateFollower, StateWriter, Wanted},
        },
    };
    use ostar_method::proportions::LabelProportions;
    const TOPIC: &str = "bounded-state";
    let config = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "4194304"),
        ("min.cleanable.dirty.ratio", "0.1"),
        ("max.compaction.lag.ms", "1000"),
        ("delete.retention.ms", "1000"),
    ];
    kafka.create_topic(TOPIC, 1, &config)?;
    let settings = KafkaSettings {
        brokers: kafka.bootstrap(),
        topic: TOPIC.to_owned(),
        ..KafkaSettings::default()
    };
    let (mut writer, newest) = StateWriter::open(&settings, TOPIC, Duration::from_secs(30))?;
    ensure!(newest.is_none() && writer.epoch() == 1);
    let proportions = LabelProportions::from_counts(&[1.0, 1.0])?;
    let publish = |writer: &mut StateWriter, number: u64, size: usize| {
        let bytes: Vec<u8> = (0..size)
            .map(|at| (at as u64 * number % 251) as u8)
            .collect();
        let version = Version {
            epoch: 1,
            step: number,
        };
        let proportions = proportions.clone();
        writer.publish(Publication {
            manifest: Some(Manifest::new(version, Identity::default(), proportions)),
            snapshot: Some(&bytes),
            ..Publication::default()
        })
    };
    publish(&mut writer, 1, 2_500_000)?;
    let mut follower = StateFollower::open(&settings, TOPIC, Wanted::Snapshots)?;
    let first = follower
        .read_all(Duration::from_secs(30))?
        .context("a state")?;
    ensure!(first.snapshot.is_some_and(|bytes| bytes.len() == 2_500_000));
    let began = Instant::now();
    let mut last = 0;
    for number in 2..1_002 {
        publish(&mut writer, number, 100_000)?;
        // A live follower sees each in time.
        while let Some(followed) = follower.poll(Duration::ZERO)? {
            last = followed
                .manifest
                .snapshot
                .map_or(0, |newest| newest.version.step);
        }
    }
    let each = began.elapsed() / 1_000;
    until("the last snapshot", TIMEOUT, || {
        if let Some(followed) = follower.poll(Duration::from_millis(100))? {
            last = followed
                .manifest
                .snapshot
                .map_or(0, |newest| newest.version.step);
        }
        Ok((last == 1_001).then_some(()))
    })?;
    // 100 MB were written. Compaction leaves the newest, and what the active segment holds.
    let size = until("compaction", TIMEOUT, || {
        let size = kafka.size_of(TOPIC)?;
        Ok((size < 20_000_000).then_some(size))
    })?;
    let began = Instant::now();
    let newest = state::newest(kafka, TOPIC)?.context("a state")?;
    let took = began.elapsed();
    ensure!(took < Duration::from_secs(5), "reading took {took:?}");
    ensure!(newest.snapshot.is_some_and(|bytes| bytes.len() == 100_000));
    let leftover = until("the removal of chunk 2", TIMEOUT, || {
        publish(&mut writer, 2_000, 100_000)?;
        let keys = kafka.keys(TOPIC)?;
        Ok((!keys.contains(&"snapshot/2".to_owned())).then_some(keys.len()))
    })?;
    let told =
        format!("{size} bytes, {leftover} records, {each:?} a publication, read in {took:?}");
    ensure!(leftover < 200 && each < Duration::from_secs(1), "{told}");
    Ok(())
}
