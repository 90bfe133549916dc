//! Creates, changes and removes topics and groups.

use std::time::Duration;

use anyhow::{Context, anyhow};
use rdkafka::{
    Offset, TopicPartitionList,
    admin::{
        AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
        TopicReplication,
    },
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
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

    fn admin(&self) -> anyhow::Result<AdminClient<DefaultClientContext>> {
        Ok(self.config().create()?)
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
