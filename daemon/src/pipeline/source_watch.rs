//! Tells in log, metrics and conditions how reading a topic goes.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ostar_connectors::kafka::{Notice, Reader};
use tracing::{info, warn};

use crate::{health::Health, metrics::Metrics, proto::PartitionLag};

/// How often lag is measured.
const LAG_EVERY: Duration = Duration::from_secs(1);
/// How often the log tells of errors with the same code.
const ERRORS_EVERY: Duration = Duration::from_secs(30);

/// Watches one topic that is read.
pub(crate) struct SourceWatch {
    /// How long no broker may answer before a condition tells so.
    patience: Duration,
    /// Since when no broker answers.
    broker_lost: Option<Instant>,
    lag_measured: Instant,
    /// When the log last told of errors with this code.
    errors_told: BTreeMap<String, Instant>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl SourceWatch {
    pub(crate) fn new(patience: Duration, health: &Arc<Health>, metrics: &Arc<Metrics>) -> Self {
        // A broker answered when the reader was opened, and notices only tell changes.
        metrics.ingest.set_broker_connected(true);
        Self {
            patience,
            broker_lost: None,
            lag_measured: Instant::now(),
            errors_told: BTreeMap::new(),
            health: Arc::clone(health),
            metrics: Arc::clone(metrics),
        }
    }

    /// Tells when no broker has answered for too long.
    pub(crate) fn check_patience(&self) {
        if let Some(lost) = self.broker_lost
            && lost.elapsed() >= self.patience
        {
            let seconds = lost.elapsed().as_secs();
            self.health
                .set_condition("kafka", format!("no broker has answered for {seconds} s"));
        }
    }

    /// Shows lag and the consumer's errors once a second; whether it was due.
    pub(crate) fn measure_lag(&mut self, now: Instant, reader: &mut Reader) -> bool {
        if now.saturating_duration_since(self.lag_measured) < LAG_EVERY {
            return false;
        }
        self.lag_measured = now;
        for lag in reader.lags() {
            self.metrics.ingest.set_lag(PartitionLag {
                partition: lag.partition,
                records: lag.records as i64,
                seconds: lag.seconds,
            });
        }
        self.show_errors(now, reader.take_errors());
        true
    }

    /// Counts the consumer's errors, and tells of each kind now and then.
    fn show_errors(&mut self, now: Instant, errors: BTreeMap<String, u64>) {
        for (code, count) in errors {
            self.metrics.ingest.consumer_errors(&code, count);
            let told = self.errors_told.get(&code);
            if told.is_none_or(|told| now.saturating_duration_since(*told) >= ERRORS_EVERY) {
                warn!(
                    code,
                    count, "the consumer reported errors, which it may recover from"
                );
                self.errors_told.insert(code, now);
            }
        }
    }

    /// Tells of a notice. What has to be done about it is the caller's business.
    pub(crate) fn tell(&mut self, notice: &Notice) {
        match notice {
            Notice::PartitionsAdded(partitions) => {
                info!(
                    ?partitions,
                    "found new partitions, reading from their beginning"
                );
            }
            Notice::OffsetsLost(lost) => {
                warn!(
                    partition = lost.partition,
                    expected = lost.expected,
                    resumed_at = lost.resumed_at,
                    lost = lost.lost,
                    cause = lost.cause.as_str(),
                    "skipped offsets that the broker no longer has"
                );
                self.metrics.ingest.offsets_lost.inc_by(lost.lost);
                if lost.cause.repeats_offsets() {
                    self.metrics.ingest.rewound(lost.cause);
                }
            }
            Notice::BrokerDown { reason } => {
                if self.broker_lost.is_none() {
                    warn!(%reason, "no broker answers");
                    self.broker_lost = Some(Instant::now());
                    self.metrics.ingest.set_broker_connected(false);
                }
            }
            Notice::BrokerUp => {
                if let Some(lost) = self.broker_lost.take() {
                    info!(
                        seconds = lost.elapsed().as_secs_f64(),
                        "a broker answers again"
                    );
                }
                self.metrics.ingest.set_broker_connected(true);
                self.health.clear("kafka");
            }
            Notice::Assigned(partitions) => {
                info!(?partitions, "the group has assigned partitions");
            }
            Notice::Revoked { partitions, lost } => {
                info!(?partitions, lost, "the group takes partitions back");
                for partition in partitions {
                    self.metrics.ingest.forget_lag(*partition);
                }
            }
        }
    }
}
