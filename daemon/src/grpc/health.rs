//! grpc.health.v1, which follows `/readyz`.

use std::sync::Arc;

use tokio::sync::watch;
use tonic_health::{ServingStatus, server::HealthReporter};

use super::{CONTROL, INFERENCE};
use crate::{health::Health, open_inference};

/// "" is the whole process.
const NAMES: [&str; 4] = ["", INFERENCE, open_inference::SERVICE, CONTROL];

/// Keeps the service up to date until the daemon stops.
pub(super) async fn follow(
    health: Arc<Health>,
    mut reporter: HealthReporter,
    mut stopped: watch::Receiver<bool>,
) {
    let mut changes = health.subscribe();
    loop {
        report(&health, &reporter).await;
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { break },
            () = super::wait(&mut stopped) => break,
        }
    }
    set_all(&reporter, ServingStatus::NotServing).await;
    // Ends the Watch streams, which would otherwise keep their connections open.
    for name in NAMES {
        reporter.clear_service_status(name).await;
    }
}

pub(super) async fn report(health: &Health, reporter: &HealthReporter) {
    let status = match health.readiness() {
        Ok(()) => ServingStatus::Serving,
        Err(_) => ServingStatus::NotServing,
    };
    set_all(reporter, status).await;
}

async fn set_all(reporter: &HealthReporter, status: ServingStatus) {
    for name in NAMES {
        reporter.set_service_status(name, status).await;
    }
}
