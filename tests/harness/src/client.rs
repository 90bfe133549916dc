//! Writes to and reads from any broker without encryption.

use std::time::Duration;

use anyhow::Context;
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::KafkaError,
    message::{BorrowedMessage, Headers, Message},
    producer::{BaseProducer, BaseRecord, Producer},
    types::RDKafkaErrorCode,
};

const TIMEOUT: Duration = Duration::from_secs(30);

/// A broker's address, and what tests do with its topics.
#[derive(Debug, Clone)]
pub struct Client {
    bootstrap: String,
}

impl Client {
    /// A client of the broker at this address.
    pub fn new(bootstrap: String) -> Self {
        Self { bootstrap }
    }

    /// The broker's address.
    pub fn address(&self) -> &str {
        &self.bootstrap
    }

    /// Sends values to a partition and waits until they are acknowledged.
    pub fn produce<V: AsRef<[u8]>>(
        &self,
        topic: &str,
        partition: i32,
        values: impl IntoIterator<Item = V>,
    ) -> anyhow::Result<()> {
        self.produce_at(topic, partition, values, None)
    }

    /// [`Client::produce`] with a timestamp instead of the current time.
    pub fn produce_at<V: AsRef<[u8]>>(
        &self,
        topic: &str,
        partition: i32,
        values: impl IntoIterator<Item = V>,
        time_ms: Option<i64>,
    ) -> anyhow::Result<()> {
        let producer: BaseProducer = self.config().create()?;
        for value in values {
            let record = BaseRecord::<(), [u8]>::to(topic);
            let mut record = record.partition(partition).payload(value.as_ref());
            record.timestamp = time_ms;
            let mut waiting = Some(record);
            while let Some(record) = waiting.take() {
                match producer.send(record) {
                    Ok(()) => {}
                    // The producer's queue is full: wait and send the record again.
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), record)) => {
                        producer.poll(Duration::from_millis(50));
                        waiting = Some(record);
                    }
                    Err((error, _)) => return Err(error.into()),
                }
            }
        }
        producer.flush(TIMEOUT).context("producing")
    }

    /// Sends a record with a key.
    pub fn produce_keyed(&self, topic: &str, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        let producer: BaseProducer = self.config().create()?;
        let record = BaseRecord::to(topic).partition(0).key(key).payload(value);
        producer.send(record).map_err(|(error, _)| error)?;
        producer.flush(TIMEOUT).context("producing")
    }

    /// Sends tombstones: records with a key and no payload.
    pub fn bury<K: AsRef<[u8]>>(
        &self,
        topic: &str,
        keys: impl IntoIterator<Item = K>,
    ) -> anyhow::Result<()> {
        let producer: BaseProducer = self.config().create()?;
        for key in keys {
            let record = BaseRecord::<[u8], [u8]>::to(topic).partition(0);
            let sent = producer.send(record.key(key.as_ref()));
            sent.map_err(|(error, _)| error)?;
        }
        producer.flush(TIMEOUT).context("producing")
    }

    /// A header's values over all records of a topic's first partition, in their order.
    pub fn header_values(&self, topic: &str, header: &str) -> anyhow::Result<Vec<String>> {
        self.read(topic, |message| {
            let headers = message.headers().context("a record without headers")?;
            let value = headers.iter().find(|found| found.key == header);
            let value = value
                .and_then(|found| found.value)
                .context("no such header")?;
            Ok(String::from_utf8_lossy(value).into_owned())
        })
    }

    /// The values of all records of a topic's first partition, in their order.
    pub fn values(&self, topic: &str) -> anyhow::Result<Vec<Vec<u8>>> {
        self.read(topic, |message| {
            let value = message.payload().context("a record without a value")?;
            Ok(value.to_vec())
        })
    }

    /// The keys of all records of a topic's first partition, in their order; tombstones, too.
    pub fn keys(&self, topic: &str) -> anyhow::Result<Vec<String>> {
        self.read(topic, |message| {
            let key = message.key().unwrap_or_default();
            Ok(String::from_utf8_lossy(key).into_owned())
        })
    }

    fn read<T>(
        &self,
        topic: &str,
        take: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        self.read_from(topic, 0, take)
    }

    /// Takes all records of a topic's first partition from an offset on that are there now: somebody may be writing.
    pub fn read_from<T>(
        &self,
        topic: &str,
        offset: i64,
        take: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        self.read_at(topic, offset, "read_committed", take)
    }

    /// The same of all records, also of transactions that were not committed.
    pub fn read_uncommitted<T>(
        &self,
        topic: &str,
        take: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        self.read_at(topic, 0, "read_uncommitted", take)
    }

    fn read_at<T>(
        &self,
        topic: &str,
        offset: i64,
        isolation: &str,
        mut take: impl FnMut(&BorrowedMessage<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let mut config = self.config();
        config
            .set("group.id", "looker")
            .set("isolation.level", isolation)
            .set("enable.partition.eof", "true");
        let consumer: BaseConsumer = config.create()?;
        let (_, end) = consumer.fetch_watermarks(topic, 0, TIMEOUT)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Offset(offset))?;
        consumer.assign(&list)?;
        let mut taken = Vec::new();
        let mut next = offset;
        while next < end {
            let polled = consumer.poll(TIMEOUT).with_context(|| {
                let watermarks = consumer.fetch_watermarks(topic, 0, TIMEOUT);
                let taken = taken.len();
                format!("no answer to a read of {topic} from {offset} on, after {taken} records; watermarks {watermarks:?}")
            });
            match polled? {
                Ok(message) => {
                    next = message.offset() + 1;
                    taken.push(take(&message)?);
                }
                Err(KafkaError::PartitionEOF(_)) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(taken)
    }

    /// Options of a client of the broker.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap);
        config.set("linger.ms", "5");
        // Tests of bad events send records beyond the default limit.
        config.set("message.max.bytes", "20000000");
        config
    }
}
