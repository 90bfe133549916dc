//! Creates, fills, reads and removes topics.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    admin::{
        AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
        TopicReplication,
    },
    client::DefaultClientContext,
    consumer::{BaseConsumer, CommitMode, Consumer},
    error::KafkaError,
    message::{BorrowedMessage, Headers, Message},
    producer::{BaseProducer, BaseRecord, Producer},
    types::RDKafkaErrorCode,
};

use super::Kafka;

const TIMEOUT: Duration = Duration::from_secs(30);

impl Kafka {
    /// Creates a topic and waits until it can be used.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        config: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        let replicas = TopicReplication::Fixed(self.quorum.size as i32);
        let mut topic = NewTopic::new(name, partitions, replicas);
        for (key, value) in config {
            topic = topic.set(key, value);
        }
        let admin = self.admin()?;
        first(block_on(admin.create_topics([&topic], &options()))??)
    }

    /// Sets a topic's configuration. Keys that are not given get their defaults.
    pub fn configure_topic(&self, name: &str, config: &[(&str, &str)]) -> anyhow::Result<()> {
        let mut altered = AlterConfig::new(ResourceSpecifier::Topic(name));
        for (key, value) in config {
            altered = altered.set(key, value);
        }
        let results = block_on(self.admin()?.alter_configs([&altered], &options()))??;
        match results.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            Some(Err((_, error))) => Err(anyhow!("{name}: {error}")),
            None => Err(anyhow!("the broker did not answer")),
        }
    }

    /// The offset that the next record of a topic's first partition gets.
    pub fn end(&self, topic: &str) -> anyhow::Result<i64> {
        let consumer: BaseConsumer = self.config().create()?;
        Ok(consumer.fetch_watermarks(topic, 0, TIMEOUT)?.1)
    }

    /// Removes a topic with all it holds.
    pub fn delete_topic(&self, name: &str) -> anyhow::Result<()> {
        first(block_on(self.admin()?.delete_topics(&[name], &options()))??)
    }

    /// Removes a consumer group with its commits.
    pub fn delete_group(&self, group: &str) -> anyhow::Result<()> {
        first(block_on(
            self.admin()?.delete_groups(&[group], &options()),
        )??)
    }

    /// Commits an offset of a topic's first partition as any other program would, without metadata.
    pub fn commit(&self, group: &str, topic: &str, offset: i64) -> anyhow::Result<()> {
        let mut config = self.config();
        let consumer: BaseConsumer = config.set("group.id", group).create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Offset(offset))?;
        Ok(consumer.commit(&list, CommitMode::Sync)?)
    }

    /// Offset and metadata of a group's commit.
    pub fn committed(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
    ) -> anyhow::Result<(Offset, String)> {
        let mut config = self.config();
        let consumer: BaseConsumer = config.set("group.id", group).create()?;
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, partition);
        let committed = consumer.committed_offsets(asked, TIMEOUT)?;
        let element = committed.elements();
        let element = element.first().context("no such partition")?;
        Ok((element.offset(), element.metadata().to_owned()))
    }

    /// Grows a topic to this number of partitions.
    pub fn add_partitions(&self, topic: &str, partitions: usize) -> anyhow::Result<()> {
        let partitions = NewPartitions::new(topic, partitions);
        let admin = self.admin()?;
        first(block_on(
            admin.create_partitions([&partitions], &options()),
        )??)
    }

    /// Removes what a partition holds before the offset, as retention does.
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) -> anyhow::Result<()> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(before))?;
        block_on(self.admin()?.delete_records(&list, &options()))??;
        Ok(())
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

    /// [`Kafka::produce`] with a timestamp instead of the current time.
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

    fn admin(&self) -> anyhow::Result<AdminClient<DefaultClientContext>> {
        Ok(self.config().create()?)
    }

    /// Options of a client of the plaintext listener.
    pub(crate) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.plaintext());
        config.set("linger.ms", "5");
        // Tests of bad events send records beyond the default limit.
        config.set("message.max.bytes", "20000000");
        config
    }
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(TIMEOUT))
        .operation_timeout(Some(TIMEOUT))
}

fn block_on<F: Future>(future: F) -> anyhow::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    Ok(runtime.block_on(future))
}

fn first<E: std::fmt::Display>(results: Vec<Result<String, (String, E)>>) -> anyhow::Result<()> {
    match results.into_iter().next() {
        Some(Ok(_)) => Ok(()),
        Some(Err((name, error))) => Err(anyhow!("{name}: {error}")),
        None => Err(anyhow!("the broker did not answer")),
    }
}
