//! The topics that ostard itself needs, with the settings that it relies on.

use std::time::Duration;

use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
};

use super::{
    client,
    error::{KafkaError, describe},
    settings::KafkaSettings,
    survey::{Survey, wait},
};

/// A topic as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan {
    /// Key of the configuration that names it.
    pub key: &'static str,
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: usize,
    /// Its configuration, where that differs from brokers' defaults.
    pub settings: Vec<(&'static str, &'static str)>,
}

/// What was found or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicOutcome {
    /// It is there, as it should be.
    Fits,
    /// It is there, and differs: what is, and what should be.
    Differs(Vec<String>),
    /// It is not there.
    Missing,
    /// It was not there, and is now.
    Created,
}

/// Settings of the state topic. Small segments are closed and cleaned soon, so that the topic stays about as large as two
/// states, and a new scorer reads it in a moment.
const STATE: [(&str, &str); 5] = [
    ("cleanup.policy", "compact"),
    ("segment.bytes", "16777216"),
    ("min.cleanable.dirty.ratio", "0.1"),
    ("max.compaction.lag.ms", "60000"),
    ("delete.retention.ms", "60000"),
];
/// A day is enough for a learner that was away over night.
const SAMPLES: [(&str, &str); 2] = [("cleanup.policy", "delete"), ("retention.ms", "86400000")];

impl TopicPlan {
    /// The topic of the state. Its one partition is what leadership is about.
    pub fn state(name: &str) -> Self {
        Self {
            key: "checkpoints.topic",
            name: name.to_owned(),
            partitions: 1,
            settings: STATE.to_vec(),
        }
    }

    /// The topic of samples. With one partition, what is learned does not depend on timing.
    pub fn samples(name: &str) -> Self {
        Self {
            key: "samples.topic",
            name: name.to_owned(),
            partitions: 1,
            settings: SAMPLES.to_vec(),
        }
    }

    /// Compares with what the cluster has, and changes nothing.
    pub fn compare(&self, survey: &Survey) -> Result<TopicOutcome, KafkaError> {
        let facts = match survey.topic(&self.name) {
            Ok(facts) => facts,
            Err(KafkaError::NoTopic { .. }) => return Ok(TopicOutcome::Missing),
            Err(error) => return Err(error),
        };
        let mut differences = Vec::new();
        if facts.partitions != self.partitions {
            let (is, should) = (facts.partitions, self.partitions);
            differences.push(format!("partitions is {is}, should be {should}"));
        }
        for (name, should) in &self.settings {
            // Without the right to see them, settings are taken for right.
            let is = facts.configuration.as_ref().and_then(|all| all.get(*name));
            if let Some(is) = is
                && is != should
            {
                differences.push(format!("{name} is {is}, should be {should}"));
            }
        }
        Ok(if differences.is_empty() {
            TopicOutcome::Fits
        } else {
            TopicOutcome::Differs(differences)
        })
    }

    /// Creates the topic. Without a number of replicas the brokers' default counts.
    pub fn create(
        &self,
        kafka: &KafkaSettings,
        replicas: Option<i32>,
        timeout: Duration,
    ) -> Result<(), KafkaError> {
        let config = client::producer_config(kafka)?;
        let admin: Result<AdminClient<DefaultClientContext>, _> = config.create();
        let admin = admin.map_err(|error| KafkaError::Options(describe(&error)))?;
        let partitions = self.partitions as i32;
        // -1: the brokers' default.
        let replication = TopicReplication::Fixed(replicas.unwrap_or(-1));
        let mut topic = NewTopic::new(&self.name, partitions, replication);
        for (name, value) in &self.settings {
            topic = topic.set(name, value);
        }
        let options = AdminOptions::new()
            .request_timeout(Some(timeout))
            .operation_timeout(Some(timeout));
        let refused = |reason: String| KafkaError::NoTopic {
            topic: self.name.clone(),
            brokers: kafka.brokers.clone(),
            reason,
        };
        let created = wait(admin.create_topics([&topic], &options));
        let created = created.map_err(|error| refused(describe(&error)))?;
        match created.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            Some(Err((_, code))) => Err(refused(code.to_string())),
            None => Err(refused("the broker did not answer".to_owned())),
        }
    }
}
