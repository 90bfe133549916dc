//! A second process on the same checkpoint folder: serves the newest checkpoint until the first process ends.

use std::time::Duration;

use anyhow::Result;
use ostar_connectors::checkpoint::{CheckpointStore, Manifest, WriterLock};
use ostar_engine::Device;
use tracing::{info, warn};

use super::Process;
use crate::{
    control::Order,
    current::Version,
    error_text::one_line,
    pipeline::{load_learner, recall},
    shutdown::Signals,
};

/// How often the lock is tried and the newest checkpoint is read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits until this process holds the writer's lock; `None` if it is told to stop before.
pub(crate) async fn wait_for_lock(
    process: &mut Process,
    store: &CheckpointStore,
    signals: &mut Signals,
) -> Result<Option<WriterLock>> {
    if let Some(lock) = store.try_lock()? {
        return Ok(Some(lock));
    }
    info!(folder = %store.folder().display(), "another process learns here: standing by");
    set_standby(process, true);
    let mut served = None;
    loop {
        follow(process, store, &mut served);
        process.health.set_started();
        tokio::select! {
            () = signals.stop() => return Ok(None),
            () = tokio::time::sleep(LOOK_EVERY) => {}
            Some(request) = process.orders.recv() => {
                let outcome = match request.order {
                    Order::SetMode(mode) => Ok(process.set_mode(mode)),
                    _ => Err("this process stands by; give the order to the one that learns".to_owned()),
                };
                // Whoever gave the order may have gone.
                let _ = request.reply.send(outcome);
            }
        }
        if let Some(lock) = store.try_lock()? {
            info!("the other process has ended: taking over");
            set_standby(process, false);
            return Ok(Some(lock));
        }
    }
}

/// Serves the newest checkpoint if it is another one than `served`. One of another bundle is ignored: its state does
/// not fit.
fn follow(process: &Process, store: &CheckpointStore, served: &mut Option<Version>) {
    // A look at the manifest is enough most of the time: the state may be large.
    if let Ok(Some(manifest)) = store.newest_manifest()
        && *served == Some(version_of(&manifest))
    {
        return;
    }
    let newest = match store.newest() {
        Ok(Some(newest)) => newest,
        Ok(None) => return,
        Err(error) => return warn!(%error, "cannot read the newest checkpoint"),
    };
    let manifest = &newest.manifest;
    let version = version_of(manifest);
    if *served == Some(version) || manifest.bundle_digest != process.bundle.digest() {
        return;
    }
    let settings = &process.config.learner.method;
    // Only for its snapshot: a process on standby takes no memory of a GPU.
    match load_learner(
        Device::Cpu,
        &process.bundle,
        settings,
        process.config.serving.objective,
        None,
        Some(&newest.state),
    ) {
        Ok(learner) => {
            let publisher = &process.publisher;
            publisher.current.publish(learner.snapshot(), version);
            publisher.status.send_modify(|status| {
                status.version = version;
                status.events = manifest.events;
                status.steps = learner.steps();
                status.gate = learner.gate().clone();
                if let Some(shares) = manifest.shares.clone() {
                    status.shares_at_ms = Some(shares.at_ms);
                    status.block = Some(recall(shares, &learner));
                }
            });
            *served = Some(version);
        }
        Err(error) => warn!(error = %one_line(&error), "cannot serve the newest checkpoint"),
    }
}

fn version_of(manifest: &Manifest) -> Version {
    Version {
        epoch: manifest.epoch,
        step: manifest.step,
    }
}

pub(super) fn set_standby(process: &Process, standby: bool) {
    process
        .publisher
        .status
        .send_modify(|status| status.standby = standby);
}
