//! Where reading starts and where it continues.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use ostar_connectors::{
    event::Offsets,
    kafka::{Commit, Commits, Connection, KafkaSettings, Notice, Polled, Start, Writer},
};
use ostar_tests::kafka::Kafka;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::{TIMEOUT, Test, check_partition, open, read, settings, values};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "all_partitions_are_read_from_the_earliest_event",
        all_partitions_are_read_from_the_earliest_event,
    ),
    (
        "reading_resumes_at_the_offsets_given_and_new_partitions_from_their_beginning",
        reading_resumes_at_the_offsets_given_and_new_partitions_from_their_beginning,
    ),
    (
        "latest_and_timestamp_start_where_they_say",
        latest_and_timestamp_start_where_they_say,
    ),
    (
        "partitions_added_while_running_are_read_from_their_beginning",
        partitions_added_while_running_are_read_from_their_beginning,
    ),
    (
        "committed_offsets_are_there_for_the_next_start",
        committed_offsets_are_there_for_the_next_start,
    ),
    (
        "a_missing_topic_is_named_and_the_error_is_transient",
        a_missing_topic_is_named_and_the_error_is_transient,
    ),
    (
        "a_marker_of_a_transaction_at_the_end_is_no_lag",
        a_marker_of_a_transaction_at_the_end_is_no_lag,
    ),
    (
        "lag_is_reported_and_a_pause_loses_nothing",
        lag_is_reported_and_a_pause_loses_nothing,
    ),
];

fn all_partitions_are_read_from_the_earliest_event(kafka: &mut Kafka) -> anyhow::Result<()> {
    kafka.create_topic("earliest", 3, &[])?;
    for partition in 0..3 {
        kafka.produce("earliest", partition, values(partition, 0..50))?;
    }
    let mut reader = open(&settings(kafka, "earliest"), &[])?;
    let seen = read(&mut reader, 150)?;
    for partition in 0..3 {
        check_partition(&seen, partition, 0..50)?;
    }
    ensure!(reader.offsets() == Offsets::from([(0, 50), (1, 50), (2, 50)]));
    ensure!(seen.notices.is_empty(), "{:?}", seen.notices);
    Ok(())
}

fn reading_resumes_at_the_offsets_given_and_new_partitions_from_their_beginning(
    kafka: &mut Kafka,
) -> anyhow::Result<()> {
    kafka.create_topic("resume", 2, &[])?;
    for partition in 0..2 {
        kafka.produce("resume", partition, values(partition, 0..20))?;
    }
    // `kafka.start` is ignored, because there are offsets.
    let settings = KafkaSettings {
        start: Start::Latest,
        ..settings(kafka, "resume")
    };
    let seen = read(&mut open(&settings, &[(0, 15)])?, 25)?;
    check_partition(&seen, 0, 15..20)?;
    check_partition(&seen, 1, 0..20)
}

fn latest_and_timestamp_start_where_they_say(kafka: &mut Kafka) -> anyhow::Result<()> {
    kafka.create_topic("start", 1, &[])?;
    kafka.produce("start", 0, values(0, 0..10))?;
    let latest = KafkaSettings {
        start: Start::Latest,
        ..settings(kafka, "start")
    };
    let mut from_latest = open(&latest, &[])?;

    kafka.produce("start", 0, values(0, 10..15))?;
    check_partition(&read(&mut from_latest, 5)?, 0, 10..15)?;

    kafka.create_topic("times", 1, &[])?;
    kafka.produce_at("times", 0, values(0, 0..10), Some(1_000))?;
    kafka.produce_at("times", 0, values(0, 10..15), Some(2_000))?;
    let by_time = KafkaSettings {
        start: Start::Timestamp,
        start_time_ms: Some(1_500),
        ..settings(kafka, "times")
    };
    check_partition(&read(&mut open(&by_time, &[])?, 5)?, 0, 10..15)
}

fn partitions_added_while_running_are_read_from_their_beginning(
    kafka: &mut Kafka,
) -> anyhow::Result<()> {
    kafka.create_topic("growing", 1, &[])?;
    kafka.produce("growing", 0, values(0, 0..10))?;
    let settings = KafkaSettings {
        start: Start::Latest,
        ..settings(kafka, "growing")
    };
    let mut reader = open(&settings, &[])?;
    kafka.add_partitions("growing", 3)?;
    for partition in 1..3 {
        kafka.produce("growing", partition, values(partition, 0..10))?;
    }
    let seen = read(&mut reader, 20)?;
    ensure!(seen.notices == [Notice::PartitionsAdded(vec![1, 2])]);
    check_partition(&seen, 1, 0..10)?;
    check_partition(&seen, 2, 0..10)?;
    // The first partition is still read.
    kafka.produce("growing", 0, values(0, 10..15))?;
    check_partition(&read(&mut reader, 5)?, 0, 10..15)
}

fn committed_offsets_are_there_for_the_next_start(kafka: &mut Kafka) -> anyhow::Result<()> {
    kafka.create_topic("commits", 2, &[])?;
    let settings = settings(kafka, "commits");
    let connection = Connection::open(&settings, TIMEOUT)?;
    ensure!(connection.committed(TIMEOUT)?.is_empty());
    let writer = Writer {
        id: "00ff".to_owned(),
        bundle: "spam".to_owned(),
    };
    let committer = connection.committer(Some(&writer));
    committer.commit_and_wait(&Offsets::from([(1, 7)]))?;
    drop((connection, committer));

    let connection = Connection::open(&settings, TIMEOUT)?;
    let commit = Commit {
        offset: 7,
        metadata: writer.to_string(),
    };
    ensure!(connection.committed(TIMEOUT)? == Commits::from([(1, commit)]));
    Ok(())
}

fn a_missing_topic_is_named_and_the_error_is_transient(kafka: &mut Kafka) -> anyhow::Result<()> {
    let settings = settings(kafka, "missing");
    let Err(error) = Connection::open(&settings, TIMEOUT) else {
        bail!("a topic that is not there was opened");
    };
    ensure!(error.is_transient());
    let text = error.to_string();
    ensure!(text.starts_with("topic \"missing\" at "), "{text}");
    kafka.create_topic("missing", 1, &[])?;
    open(&settings, &[]).map(drop)
}

/// The mock broker writes no markers.
fn a_marker_of_a_transaction_at_the_end_is_no_lag(kafka: &mut Kafka) -> anyhow::Result<()> {
    kafka.create_topic("marked", 1, &[])?;
    let mut config = kafka.config();
    let producer: BaseProducer = config.set("transactional.id", "marked").create()?;
    producer.init_transactions(TIMEOUT)?;
    producer.begin_transaction()?;
    let record = BaseRecord::<(), str>::to("marked").payload("0/0");
    producer.send(record).map_err(|(error, _)| error)?;
    producer.commit_transaction(TIMEOUT)?;
    // The broker writes the marker after it has answered.
    ostar_tests::until("the record and its marker", TIMEOUT, || {
        Ok((kafka.end("marked")? == 2).then_some(()))
    })?;

    // From the beginning, and from the offset that was committed behind the record.
    for start in [0, 1] {
        let mut reader = open(&settings(kafka, "marked"), &[(0, start)])?;
        let read = read(&mut reader, 1 - start as usize)?;
        ensure!(read.records.len() == 1 - start as usize);
        ostar_tests::until("no lag", TIMEOUT, || {
            let polled = reader.poll(Duration::from_millis(20))?;
            ensure!(matches!(polled, Polled::Idle), "no further event");
            let lag = &reader.lags()[0];
            Ok((lag.records == 0 && lag.seconds == Some(0.0)).then_some(()))
        })?;
        ensure!(reader.offsets() == Offsets::from([(0, 1)]));
    }
    Ok(())
}

fn lag_is_reported_and_a_pause_loses_nothing(kafka: &mut Kafka) -> anyhow::Result<()> {
    kafka.create_topic("lag", 1, &[])?;
    let mut reader = open(&settings(kafka, "lag"), &[])?;
    kafka.produce("lag", 0, values(0, 0..10))?;
    check_partition(&read(&mut reader, 10)?, 0, 0..10)?;

    reader.pause();
    kafka.produce("lag", 0, values(0, 10..35))?;
    let deadline = Instant::now() + TIMEOUT;
    while reader.lags()[0].records < 25 {
        ensure!(Instant::now() < deadline, "{:?}", reader.lags());
        let polled = reader.poll(Duration::from_millis(20))?;
        ensure!(matches!(polled, Polled::Idle));
    }
    ensure!(
        reader.lags()[0]
            .seconds
            .is_some_and(|seconds| seconds < 60.0)
    );
    reader.resume();
    check_partition(&read(&mut reader, 25)?, 0, 10..35)?;
    ensure!(reader.lags()[0].records == 0);
    Ok(())
}
