//! Counts the outputs of each event.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::{BorrowedMessage, Headers},
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// By partition and offset of the event, how often it has an output in a topic with one partition.
pub(super) fn outputs(addresses: &str, topic: &str) -> Result<BTreeMap<(i32, i64), usize>> {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", addresses)
        .set("group.id", "looker")
        .set("enable.partition.eof", "true")
        .set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
    let consumer: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning)?;
    consumer.assign(&list)?;
    let mut counts = BTreeMap::new();
    loop {
        match consumer.poll(TIMEOUT).context("no answer")? {
            Ok(message) => *counts.entry(place(&message)?).or_insert(0) += 1,
            Err(KafkaError::PartitionEOF(_)) => return Ok(counts),
            // A broker that is away comes back.
            Err(_) => {}
        }
    }
}

fn place(message: &BorrowedMessage<'_>) -> Result<(i32, i64)> {
    let headers = message.headers().context("a record without headers")?;
    let number = |name: &str| -> Result<i64> {
        let header = headers.iter().find(|header| header.key == name);
        let value = header
            .and_then(|header| header.value)
            .context("no header")?;
        Ok(std::str::from_utf8(value)?.parse()?)
    };
    Ok((number("ostar-partition")? as i32, number("ostar-offset")?))
}
