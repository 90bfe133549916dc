//! librdkafka's mock cluster, in this process.

use std::ops::Deref;

use anyhow::Result;
use rdkafka::{mocking::MockCluster, producer::DefaultProducerContext};

use crate::Client;

/// A broker that needs neither Java nor a network. Dropping it ends it.
pub struct Mock {
    cluster: MockCluster<'static, DefaultProducerContext>,
    client: Client,
}

impl Mock {
    /// Starts one broker.
    pub fn start() -> Result<Self> {
        let cluster = MockCluster::new(1)?;
        let client = Client::new(cluster.bootstrap_servers());
        Ok(Self { cluster, client })
    }

    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<()> {
        Ok(self.cluster.create_topic(name, partitions, 1)?)
    }

    /// Makes the broker unreachable until [`Mock::up`].
    pub fn down(&self) -> Result<()> {
        Ok(self.cluster.broker_down(1)?)
    }

    /// Makes it reachable again, with all that it held.
    pub fn up(&self) -> Result<()> {
        Ok(self.cluster.broker_up(1)?)
    }
}

impl Deref for Mock {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
