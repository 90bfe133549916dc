//! What is learned is kept in a topic: one process writes, others serve what it publishes until the group makes one of them
//! the next.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use ostar_connectors::kafka::{Leadership, state::StateWriter};
use tracing::{info, warn};

use super::{
    Held, Process,
    following::Following,
    orders::Hands,
    waiting::{RETRY, is_transient},
};
use crate::{
    config::Role,
    pipeline::{Store, Threads, TopicStore},
    shutdown::Signals,
};

/// How often leadership, and what is followed, is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long fencing predecessors and reading the topic may take.
const OPENING: Duration = Duration::from_secs(30);

impl Process {
    /// Follows the learner, until everything is read that it has published: before that, a scorer would answer as if nothing
    /// had ever been learned.
    pub(super) async fn follow_learner(&mut self, signals: &mut Signals) -> Result<()> {
        self.following = Some(Following::start(self)?);
        let look = |process: &Self| Ok(process.has_caught_up().then_some(()));
        self.wait_until(signals, LOOK_EVERY, look).await
    }

    /// Stands by until the group makes this process the one that learns, fences predecessors, and takes over what they have
    /// written.
    pub(super) async fn hold_topic(&mut self, signals: &mut Signals) -> Result<Held> {
        let config = &self.config;
        let topic = config.checkpoints.topic.clone().unwrap_or_default();
        let group = format!("{}-learners", config.kafka.group());
        let session = config.checkpoints.session_timeout.get();
        let (leadership, keeper) = Leadership::join(&config.kafka, &group, &topic, session)?;
        // Health reports a failure. Whoever drops the leadership waits for the thread.
        let (mut threads, _) = Threads::new(Arc::clone(&self.health));
        threads.start("leadership", move || Ok(keeper.run()?))?;
        self.following = Some(Following::start(self)?);
        info!(topic, group, "waiting until no other process learns");
        self.publisher.set_standby(true);
        let (writer, newest) = loop {
            // After a failure the group may have lost sight of this process: whoever leads must not be fenced by it.
            let look = |process: &Self| {
                if process.has_caught_up() {
                    process.health.set_started();
                }
                Ok(leadership.leads().then_some(()))
            };
            self.wait_until(signals, LOOK_EVERY, look).await?;
            let (kafka, name) = (self.config.kafka.clone(), topic.clone());
            let open = move || Ok(StateWriter::open(&kafka, &name, OPENING)?);
            match self.attempt(signals, &mut Hands::Nobody, open).await {
                Err(error) if is_transient(&error) => {
                    warn!(%error, "cannot take over the state topic yet, trying again");
                    self.health.set_condition("kafka", error.to_string());
                    self.pause(signals, &mut Hands::Nobody, RETRY).await?;
                }
                opened => break opened?,
            }
        };
        info!(topic, "this process learns from now on");
        // It has served the newest snapshot until here.
        self.following = None;
        self.health.clear("state");
        self.publisher.set_standby(false);
        let epoch = writer.epoch();
        let config = &self.config;
        let samples = (config.role == Role::Learner).then_some(config.samples.per_second);
        let store = TopicStore::new(writer, leadership, &config.checkpoints, samples);
        Ok(Held {
            store: Store::Topic(Box::new(store)),
            newest: newest.and_then(|newest| newest.into_checkpoint(&topic)),
            epoch,
        })
    }

    fn has_caught_up(&self) -> bool {
        let following = self.following.as_ref();
        following.is_some_and(Following::has_caught_up)
    }
}
