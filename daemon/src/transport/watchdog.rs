//! Looks at all connections and requests, and cuts those that have made no progress for too long.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use super::{admission::Protocol, connection::Connection, uploads::Uploads};
use crate::{
    config::ConnectionSettings,
    metrics::{CutReason, Listener, Metrics},
};

/// All connections of one listener.
pub(crate) struct Connections {
    pub(super) listener: Listener,
    most: usize,
    /// How much and how long a client may owe.
    pub(super) settings: ConnectionSettings,
    open: Mutex<Open>,
    pub(super) metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Open {
    last_number: u64,
    connections: HashMap<u64, Arc<Connection>>,
}

/// Counts the connection until it is dropped.
pub(super) struct Admitted {
    number: u64,
    connections: Arc<Connections>,
    pub(super) connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(
        listener: Listener,
        most: usize,
        settings: &ConnectionSettings,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            listener,
            most,
            settings: settings.clone(),
            open: Mutex::default(),
            metrics,
        })
    }

    /// Takes a new connection in. If there are too many, one without an arrived request gives way. `None` if all are
    /// busy.
    pub(super) fn admit(self: &Arc<Self>, protocol: Protocol) -> Option<Admitted> {
        let mut open = self.open.lock();
        if open.connections.len() >= self.most && !open.make_room() {
            self.metrics.serving.cut_connection(CutReason::Limit);
            return None;
        }
        open.last_number += 1;
        let number = open.last_number;
        let connection = Connection::new(protocol);
        open.connections.insert(number, Arc::clone(&connection));
        self.show(&open);
        Some(Admitted {
            number,
            connections: Arc::clone(self),
            connection,
        })
    }

    /// Cuts one connection that is not busy, because the process has no handle left.
    pub(super) fn give_way(&self) {
        self.open.lock().make_room();
    }

    fn check(&self, now: Instant) {
        for connection in self.open.lock().connections.values() {
            if let Some(reason) = connection.overdue(now, &self.settings) {
                connection.cut(reason);
            }
        }
    }

    fn show(&self, open: &Open) {
        let count = open.connections.len();
        self.metrics.serving.set_connections(self.listener, count);
    }
}

impl Open {
    fn make_room(&mut self) -> bool {
        let ranked = self.connections.iter();
        let ranked = ranked.filter_map(|(number, connection)| Some((connection.rank()?, *number)));
        let Some((_, number)) = ranked.min() else {
            return false;
        };
        if let Some(connection) = self.connections.remove(&number) {
            connection.cut(CutReason::Limit);
        }
        true
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let connections = &self.connections;
        if let Some(reason) = self.connection.reason() {
            connections.metrics.serving.cut_connection(reason);
        }
        let mut open = connections.open.lock();
        open.connections.remove(&self.number);
        connections.show(&open);
    }
}

/// Runs until the daemon stops.
pub(crate) async fn watch(
    listeners: Vec<Arc<Connections>>,
    uploads: Arc<Uploads>,
    settings: ConnectionSettings,
    mut stopped: watch::Receiver<bool>,
) {
    let body = settings.body_timeout;
    let shortest = body.min(settings.header_timeout).min(settings.idle_timeout);
    let tick = (shortest.get() / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
    let mut ticks = interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let now = Instant::now();
        for listener in &listeners {
            listener.check(now);
        }
        for ticket in uploads.tickets() {
            ticket.check(now, body.get());
        }
        uploads.show();
    }
}
