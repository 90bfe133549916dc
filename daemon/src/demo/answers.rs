//! Somebody who looks at the mails that the daemon asks for.

use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
};

use super::{REQUESTS_TOPIC, feed::number_of};

/// Reads the topic of requests for labels.
pub(super) struct Requests {
    consumer: BaseConsumer,
}

impl Requests {
    pub(super) fn open(brokers: &str) -> Result<Self> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("group.id", "the demo's reader")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "20")
            .create()
            .context("cannot start the demo's reader of requests")?;
        let mut topic = TopicPartitionList::new();
        topic.add_partition_offset(REQUESTS_TOPIC, 0, Offset::Beginning)?;
        consumer.assign(&topic)?;
        Ok(Self { consumer })
    }

    /// Numbers of the mails that were asked for since the last call. What cannot be read now is read later.
    pub(super) fn asked(&self) -> Vec<u64> {
        let records = std::iter::from_fn(|| self.consumer.poll(Duration::ZERO));
        let asked = records.flatten().filter_map(|record| {
            let id = std::str::from_utf8(record.key()?).ok()?;
            number_of(id)
        });
        asked.collect()
    }
}
