//! Several learners on one state topic: one learns, the others serve what it publishes and wait.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use ostar_connectors::{
    checkpoint::Checkpoint,
    kafka::{Leadership, state::StateWriter},
};
use tracing::{info, warn};

use super::{Held, Process, following::Following, standby::set_standby};
use crate::{
    config::Role,
    control::{Order, Request},
    pipeline::{SampleShare, Store, Threads, TopicStore},
    shutdown::Signals,
};

/// How often leadership is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long fencing predecessors and reading the topic may take.
const OPENING: Duration = Duration::from_secs(30);
/// Pause between two attempts.
const RETRY: Duration = Duration::from_secs(1);

/// Waits until this process is the one that learns; `None` if it is told to stop before.
pub(super) async fn wait_to_lead(
    process: &mut Process,
    signals: &mut Signals,
) -> Result<Option<Held>> {
    let config = &process.config;
    let topic = config.checkpoints.topic.clone().unwrap_or_default();
    let group = format!("{}-learners", config.kafka.group());
    let session = config.checkpoints.session_timeout.get();
    let (leadership, keeper) = Leadership::join(&config.kafka, &group, &topic, session)?;
    // Health tells of a failure. Whoever drops the leadership waits for the thread.
    let (mut threads, _) = Threads::new(Arc::clone(&process.health));
    threads.start("leadership", move || Ok(keeper.run()?))?;
    let following = Following::start(process, SampleShare::new())?;
    info!(topic, group, "waiting until no other process learns");
    set_standby(process, true);
    while !leadership.leads() {
        if following.has_caught_up() {
            process.health.set_started();
        }
        tokio::select! {
            () = signals.stop() => return Ok(None),
            () = tokio::time::sleep(LOOK_EVERY) => {}
            Some(request) = process.orders.recv() => refuse(request),
        }
    }
    info!(topic, "this process learns from now on");
    let Some((writer, newest)) = open(process, &topic, &leadership, signals).await? else {
        return Ok(None);
    };
    // It has served the newest snapshot until here.
    drop(following);
    process.health.clear("state");
    set_standby(process, false);
    let epoch = writer.epoch();
    let config = &process.config;
    let samples = (config.role == Role::Learner).then_some(config.samples.per_second);
    let store = TopicStore::new(writer, leadership, &config.checkpoints, samples);
    Ok(Some(Held {
        store: Store::Topic(Box::new(store)),
        newest,
        epoch,
    }))
}

/// Fences predecessors and takes over what they have written, again and again while no broker answers.
async fn open(
    process: &mut Process,
    topic: &str,
    leadership: &Leadership,
    signals: &mut Signals,
) -> Result<Option<(StateWriter, Option<Checkpoint>)>> {
    loop {
        let (kafka, name) = (process.config.kafka.clone(), topic.to_owned());
        let opening =
            tokio::task::spawn_blocking(move || StateWriter::open(&kafka, &name, OPENING));
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                () = signals.stop() => return Ok(None),
                opened = &mut opening => break opened.context("opening the state topic panicked")?,
                Some(request) = process.orders.recv() => refuse(request),
            }
        };
        match opened {
            Ok((writer, newest)) => {
                let checkpoint = newest.and_then(|newest| {
                    let entry = newest.manifest.checkpoint?;
                    Some(Checkpoint {
                        manifest: entry.manifest,
                        state: newest.checkpoint?,
                        path: PathBuf::from(format!("of topic {topic}")),
                    })
                });
                process.health.clear("kafka");
                return Ok(Some((writer, checkpoint)));
            }
            Err(error) if error.is_transient() => {
                warn!(%error, "cannot take over the state topic yet, trying again");
                process.health.set_condition("kafka", error.to_string());
                let mut pause = RETRY;
                // Meanwhile the group may have lost sight of this process: whoever leads must not be fenced by it.
                while !pause.is_zero() || !leadership.leads() {
                    tokio::select! {
                        () = signals.stop() => return Ok(None),
                        () = tokio::time::sleep(LOOK_EVERY) => pause = pause.saturating_sub(LOOK_EVERY),
                        Some(request) = process.orders.recv() => refuse(request),
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whoever stands by carries out no orders: it follows those that the learner has got.
fn refuse(request: Request) {
    let refused = match request.order {
        Order::SetMode(_) => {
            "this process follows the learner's mode; give the order to the one that learns"
        }
        _ => "this process stands by; give the order to the one that learns",
    };
    // Whoever gave the order may have gone.
    let _ = request.reply.send(Err(refused.to_owned()));
}
