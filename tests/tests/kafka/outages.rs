//! Outages of the broker, and events that are removed before they are read.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use ostar_connectors::kafka::{
    KafkaError, KafkaSettings, LossCause, LostOffsets, Notice, OnLostOffsets, Polled,
};
use ostar_tests::kafka::Kafka;

use crate::{TIMEOUT, Test, check_partition, open, read, read_until, settings, values};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "a_broker_that_comes_back_is_noticed_and_nothing_is_lost",
        a_broker_that_comes_back_is_noticed_and_nothing_is_lost,
    ),
    (
        "events_removed_before_they_were_read_are_counted",
        events_removed_before_they_were_read_are_counted,
    ),
    (
        "events_removed_while_reading_are_counted",
        events_removed_while_reading_are_counted,
    ),
    (
        "lost_offsets_stop_reading_if_so_configured",
        lost_offsets_stop_reading_if_so_configured,
    ),
    (
        "a_recreated_topic_is_noticed_and_read_from_its_beginning",
        a_recreated_topic_is_noticed_and_read_from_its_beginning,
    ),
];

fn a_broker_that_comes_back_is_noticed_and_nothing_is_lost(
    kafka: &mut Kafka,
) -> anyhow::Result<()> {
    kafka.create_topic("outage", 2, &[])?;
    kafka.produce("outage", 0, values(0, 0..10))?;
    let mut reader = open(&settings(kafka, "outage"), &[])?;
    check_partition(&read(&mut reader, 10)?, 0, 0..10)?;

    kafka.stop()?;
    let down = |notice: &Notice| matches!(notice, Notice::BrokerDown { .. });
    let seen = read_until(&mut reader, "BrokerDown", |seen| {
        seen.notices.iter().any(down)
    })?;
    ensure!(seen.notices.len() == 1, "{:?}", seen.notices);

    kafka.restart()?;
    kafka.produce("outage", 0, values(0, 10..20))?;
    kafka.produce("outage", 1, values(1, 0..10))?;
    let seen = read_until(&mut reader, "BrokerUp and 20 records", |seen| {
        seen.records.len() >= 20 && seen.notices.contains(&Notice::BrokerUp)
    })?;
    ensure!(seen.notices == [Notice::BrokerUp], "{:?}", seen.notices);
    check_partition(&seen, 0, 10..20)?;
    check_partition(&seen, 1, 0..10)
}

fn events_removed_before_they_were_read_are_counted(kafka: &mut Kafka) -> anyhow::Result<()> {
    kafka.create_topic("removed", 1, &[])?;
    kafka.produce("removed", 0, values(0, 0..100))?;
    kafka.delete_records("removed", 0, 60)?;
    let seen = read(&mut open(&settings(kafka, "removed"), &[(0, 25)])?, 40)?;
    ensure!(
        seen.notices == [lost(25, 60, 35, LossCause::Retention)],
        "{:?}",
        seen.notices
    );
    check_partition(&seen, 0, 60..100)
}

fn events_removed_while_reading_are_counted(kafka: &mut Kafka) -> anyhow::Result<()> {
    kafka.create_topic("overtaken", 1, &[])?;
    kafka.produce("overtaken", 0, values(0, 0..10))?;
    // Prefetch only a few events, so that retention can overtake the reader.
    let mut settings = settings(kafka, "overtaken");
    for (option, value) in [
        ("queued.min.messages", "1"),
        ("queued.max.messages.kbytes", "1"),
        ("fetch.message.max.bytes", "100"),
    ] {
        settings
            .options
            .0
            .insert(option.to_owned(), value.to_owned());
    }
    let mut reader = open(&settings, &[])?;
    check_partition(&read(&mut reader, 10)?, 0, 0..10)?;

    reader.pause();
    for batch in 0..50 {
        let first = 10 + batch * 100;
        kafka.produce("overtaken", 0, values(0, first..first + 100))?;
    }
    kafka.delete_records("overtaken", 0, 5_000)?;
    reader.resume();
    let seen = read_until(&mut reader, "the last event", |seen| {
        seen.records.last().is_some_and(|record| record.1 == 5_009)
    })?;
    // Events that were prefetched are still read; all others are counted as lost.
    let [Notice::OffsetsLost(lost)] = &seen.notices[..] else {
        bail!("one loss expected: {:?}", seen.notices);
    };
    let retention = lost.cause == LossCause::Retention;
    ensure!(lost.resumed_at == 5_000 && retention, "{lost:?}");
    let read_before = seen.records.len() as u64 - 10;
    ensure!(read_before + lost.lost == 4_990, "{read_before} {lost:?}");
    ensure!(lost.lost > 0);
    Ok(())
}

fn lost_offsets_stop_reading_if_so_configured(kafka: &mut Kafka) -> anyhow::Result<()> {
    kafka.create_topic("strict", 1, &[])?;
    kafka.produce("strict", 0, values(0, 0..10))?;
    kafka.delete_records("strict", 0, 5)?;
    let settings = KafkaSettings {
        on_lost_offsets: OnLostOffsets::Stop,
        ..settings(kafka, "strict")
    };
    match open(&settings, &[(0, 1)]) {
        Ok(_) => bail!("reading went on"),
        Err(error) => {
            let error = error.downcast::<KafkaError>()?;
            ensure!(matches!(error, KafkaError::Lost(_)), "{error}");
            ensure!(!error.is_transient());
            ensure!(error.to_string().contains("kafka.on_lost_offsets"));
            Ok(())
        }
    }
}

fn a_recreated_topic_is_noticed_and_read_from_its_beginning(
    kafka: &mut Kafka,
) -> anyhow::Result<()> {
    kafka.create_topic("recreated", 1, &[])?;
    kafka.produce("recreated", 0, values(0, 0..50))?;
    let mut reader = open(&settings(kafka, "recreated"), &[])?;
    check_partition(&read(&mut reader, 50)?, 0, 0..50)?;

    kafka.delete_topic("recreated")?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        ensure!(Instant::now() < deadline, "the topic's end was not noticed");
        if let Polled::Notice(notice) = reader.poll(Duration::from_millis(50))? {
            ensure!(matches!(notice, Notice::BrokerDown { .. }), "{notice:?}");
            break;
        }
    }
    kafka.create_topic("recreated", 1, &[])?;
    kafka.produce("recreated", 0, values(0, 0..7))?;
    let seen = read(&mut reader, 7)?;
    let expected = [Notice::BrokerUp, lost(50, 0, 0, LossCause::Recreated)];
    ensure!(seen.notices == expected, "{:?}", seen.notices);
    check_partition(&seen, 0, 0..7)
}

fn lost(expected: i64, resumed_at: i64, lost: u64, cause: LossCause) -> Notice {
    Notice::OffsetsLost(LostOffsets {
        partition: 0,
        expected,
        resumed_at,
        lost,
        cause,
    })
}
