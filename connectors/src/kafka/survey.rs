//! Looks at a cluster before anything is deployed: what is there, and what this client may do with it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, ResourceSpecifier},
    client::DefaultClientContext,
    consumer::Consumer as _,
};

use super::{
    client::{self, Consumer, Context},
    connection::Connection,
    error::{KafkaError, describe},
    settings::KafkaSettings,
    topic::{Topic, first_reason},
    topic_description::{self, Permissions},
};

/// A cluster that answers. Nothing is read, written or created.
pub struct Survey {
    /// Of clients that ask for configurations.
    config: ClientConfig,
    settings: KafkaSettings,
    consumer: Arc<Consumer>,
    brokers: Vec<i32>,
    timeout: Duration,
}

/// A topic as the broker describes it to this client.
#[derive(Debug, Clone)]
pub struct TopicFacts {
    /// How many partitions it has.
    pub partitions: usize,
    /// Fewest replicas that are in sync, over all partitions.
    pub in_sync: usize,
    /// What this client may do with it; `None` if the broker does not tell.
    pub permissions: Option<Permissions>,
    /// Its configuration; `None` if this client may not see it.
    pub configuration: Option<BTreeMap<String, String>>,
}

impl Survey {
    /// Reads the secrets and asks for the cluster's brokers. Each further question takes at most the timeout.
    pub fn open(settings: &KafkaSettings, timeout: Duration) -> Result<Self, KafkaError> {
        let config = client::producer_config(settings)?;
        let consumer = client::consumer_config(settings)?;
        let consumer: Consumer = client::create(&consumer, Context::default())?;
        let topic = Topic::new(Arc::new(consumer), &settings.topic, &settings.brokers);
        let metadata = topic.consumer.fetch_metadata(None, timeout);
        let metadata = metadata.map_err(|error| first_reason(&topic, topic.unreachable(&error)))?;
        Ok(Self {
            config,
            settings: settings.clone(),
            brokers: metadata
                .brokers()
                .iter()
                .map(|broker| broker.id())
                .collect(),
            consumer: topic.consumer,
            timeout,
        })
    }

    /// How long each question may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many brokers the cluster has.
    pub fn brokers(&self) -> usize {
        self.brokers.len()
    }

    /// Asks about a topic. [`KafkaError::NoTopic`] if it is not there, or if this client may not know of it.
    pub fn topic(&self, name: &str) -> Result<TopicFacts, KafkaError> {
        let topic = Topic::new(Arc::clone(&self.consumer), name, &self.settings.brokers);
        let metadata = topic.metadata(self.timeout)?;
        let found = topic.in_metadata(&metadata);
        let partitions = found.map(|topic| topic.partitions()).unwrap_or_default();
        let in_sync = partitions.iter().map(|partition| partition.isr().len());
        let described = topic_description::describe(&self.consumer, name, true, self.timeout);
        Ok(TopicFacts {
            partitions: partitions.len(),
            in_sync: in_sync.min().unwrap_or_default(),
            permissions: described.and_then(|described| described.permissions),
            configuration: self.configuration(&ResourceSpecifier::Topic(name)),
        })
    }

    /// Whether the brokers create a topic when somebody writes to it; `None` if this client may not know.
    pub fn creates_topics(&self) -> Option<bool> {
        let broker = ResourceSpecifier::Broker(*self.brokers.first()?);
        let configuration = self.configuration(&broker)?;
        Some(configuration.get("auto.create.topics.enable")? == "true")
    }

    /// Looks at the topic of events and at the group's commits, as a start does.
    pub fn connection(&self) -> Result<Connection, KafkaError> {
        Connection::open(&self.settings, self.timeout)
    }

    fn configuration(&self, of: &ResourceSpecifier<'_>) -> Option<BTreeMap<String, String>> {
        let admin: Result<AdminClient<DefaultClientContext>, _> = self.config.create();
        let admin = admin
            .inspect_err(|error| tracing::debug!(error = %describe(error), "no admin client"))
            .ok()?;
        let options = AdminOptions::new().request_timeout(Some(self.timeout));
        let described = wait(admin.describe_configs([of], &options)).ok()?;
        let resource = described.into_iter().next()?.ok()?;
        let entries = resource.entries.into_iter();
        Some(
            entries
                .filter_map(|entry| Some((entry.name, entry.value?)))
                .collect(),
        )
    }
}

/// Waits on this thread for an answer that a thread of the client brings.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    use std::{
        pin::pin,
        task::{Context, Poll, Wake, Waker},
        thread::{self, Thread},
    };
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
