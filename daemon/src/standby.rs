//! A second process on the same folder: serves the newest checkpoint until the first one ends.

use std::time::Duration;

use anyhow::Result;
use ostar_connectors::checkpoint::{CheckpointStore, WriterLock};
use tracing::{info, warn};

use crate::{
    control::Order, current::Version, pipeline::load_learner, run::Process, shutdown::Signals,
};

/// How often the lock is tried and the newest checkpoint looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits until this process is the writer; `None` if it is told to stop before.
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
    let mut shown = None;
    loop {
        follow(process, store, &mut shown);
        tokio::select! {
            () = signals.stop() => return Ok(None),
            () = tokio::time::sleep(LOOK_EVERY) => {}
            Some(request) = process.orders.recv() => {
                let outcome = match request.order {
                    Order::SetMode(mode) => {
                        process.outlets.current.set_mode(mode);
                        Ok("serving mode changed".to_owned())
                    }
                    _ => Err("this process stands by; give the order to the one that learns".to_owned()),
                };
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

/// Serves the newest checkpoint, if it is newer than what is shown.
fn follow(process: &Process, store: &CheckpointStore, shown: &mut Option<Version>) {
    let newest = match store.newest() {
        Ok(Some(newest)) => newest,
        Ok(None) => return,
        Err(error) => return warn!(%error, "cannot read the newest checkpoint"),
    };
    let manifest = &newest.manifest;
    let version = Version {
        epoch: manifest.epoch,
        step: manifest.step,
    };
    if *shown == Some(version) || manifest.bundle_digest != process.bundle.digest() {
        return;
    }
    let settings = &process.config.learner.method;
    match load_learner(&process.bundle, settings, Some(&newest.state)) {
        Ok(learner) => {
            process.outlets.current.publish(learner.snapshot(), version);
            process.outlets.status.send_modify(|status| {
                status.version = version;
                status.events = manifest.events;
                status.steps = learner.steps();
            });
            *shown = Some(version);
        }
        Err(error) => warn!(error = %format!("{error:#}"), "cannot serve the newest checkpoint"),
    }
}

fn set_standby(process: &Process, standby: bool) {
    process
        .outlets
        .status
        .send_modify(|status| status.standby = standby);
}
