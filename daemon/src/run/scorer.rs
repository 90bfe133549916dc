//! The role scorer: reads the partitions that its group assigns, scores them, and serves what the learner publishes.

use std::time::Duration;

use anyhow::Result;
use ostar_connectors::kafka::{Connection, Writer};
use tracing::info;

use super::{
    Process,
    following::Following,
    topic::{ATTEMPT, wait_for},
};
use crate::{
    control::{Order, Request},
    pipeline::{Emitted, EventSource, Parts, Pipeline, PipelineSetup, SampleShare},
    shutdown::Signals,
};

/// How often the state topic is looked at before the first snapshot is served.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Who the scorers of a group are in its commits: all of them are one writer.
const WRITER: &str = "scorers";

impl Process {
    /// Follows the learner, scores and serves until a signal.
    pub(super) async fn score(&mut self, signals: &mut Signals) -> Result<()> {
        let share = SampleShare::new();
        let following = Following::start(self, share.clone())?;
        // A scorer that has not read the state would answer as if nothing had ever been learned.
        while !following.has_caught_up() {
            tokio::select! {
                () = signals.stop() => return Ok(()),
                () = tokio::time::sleep(LOOK_EVERY) => {}
                Some(request) = self.orders.recv() => refuse(request),
            }
        }
        self.health.set_started();
        let settings = self.config.kafka.clone();
        let bundle = self.bundle.description().name.clone();
        let writer = Writer {
            id: WRITER.to_owned(),
            bundle,
        };
        let open = move || {
            let connection = Connection::open_member(&settings, ATTEMPT)?;
            let committer = connection.committer(Some(&writer));
            Ok((connection.join(&writer)?, committer))
        };
        let patience = self.config.kafka.patience.get();
        let (health, orders) = (&self.health, &mut self.orders);
        let opened = wait_for(open, patience, health, signals, orders, refuse).await?;
        let Some((reader, committer)) = opened else {
            return Ok(());
        };
        let mut pipeline = Pipeline::start(PipelineSetup {
            config: &self.config,
            bundle: &self.bundle,
            parts: Parts::Scorer {
                events: EventSource {
                    reader,
                    committer,
                    emitted: Emitted::new(Default::default()),
                },
                share,
            },
            publisher: self.publisher.clone(),
            health: self.health.clone(),
        })?;
        let group = self.config.kafka.group();
        info!(topic = %self.config.kafka.topic, group, "scoring the stream");
        let failure = loop {
            tokio::select! {
                () = signals.stop() => break None,
                failure = pipeline.failure() => break Some(failure),
                Some(request) = self.orders.recv() => match request.order {
                    Order::ReadOn => pipeline.order(request),
                    _ => refuse(request),
                },
            }
        };
        self.stop_pipeline(pipeline, failure).await
    }
}

/// A scorer carries out no orders: it follows those that the learner has got.
fn refuse(request: Request) {
    let refused = match request.order {
        Order::ReadOn => "reading is not stopped",
        _ => "this process is a scorer and follows the learner; give the order to the learner",
    };
    // Whoever gave the order may have gone.
    let _ = request.reply.send(Err(refused.to_owned()));
}
