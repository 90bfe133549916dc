//! The configuration: defaults, then a file, then environment variables, then flags.
//!
//! The `config` crate parses the files. The layers are merged as a tree of our own, in which each value knows its origin
//! ([`tree`]). The JSON Schema of [`Config`] says what each key may hold ([`shape`]). With it, unknown keys and wrong
//! types are all found at once ([`check`]), and texts of variables and flags are read as the type of their key.
//! docs/decisions/0008-configuration-tree.md has the reasons.

mod check;
mod connections;
mod defaults;
mod labels;
mod layers;
mod listeners;
mod metrics;
mod open_listeners;
mod print;
mod problems;
mod read;
mod requests;
mod roles;
mod run;
mod secrets;
mod sections;
mod shape;
mod suggest;
#[cfg(test)]
mod tests;
mod tree;
mod validate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use connections::ConnectionSettings;
pub(crate) use layers::{Flag, Layers};
pub(crate) use listeners::{AuthSettings, GrpcSettings, HttpSettings, TlsSettings};
pub(crate) use metrics::MetricsSettings;
pub(crate) use open_listeners::is_loopback;
pub(crate) use problems::Problems;
pub(crate) use read::Reading;
pub(crate) use requests::RequestSettings;
pub(crate) use roles::{CheckpointKind, Role};
pub(crate) use sections::{
    BundleSettings, CheckpointSettings, LearnerSection, LogFormat, LogSettings, OnBundleChange,
    ServingSettings, ShutdownSettings, WhenBehind,
};
pub(crate) use suggest::nearest;

use ostar_connectors::{
    event::EventSettings,
    kafka::{
        DeadLetterSettings, KafkaSettings, OutputSettings, ParkedSettings, PredictionSettings,
    },
    labels::LabelSettings,
    samples::SampleSettings,
};

/// The whole configuration. Commands get it from [`Reading`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct Config {
    /// What this process does: everything, or a part of it beside others.
    pub(crate) role: Role,
    /// The deployed model.
    pub(crate) bundle: BundleSettings,
    /// Where events come from.
    pub(crate) kafka: KafkaSettings,
    /// How events are decoded.
    pub(crate) events: EventSettings,
    /// Where predictions go.
    pub(crate) predictions: PredictionSettings,
    /// Events that cannot be decoded or scored: where they go, and how many stop the reading.
    pub(crate) dead_letters: DeadLetterSettings,
    /// How predictions and dead letters are delivered.
    pub(crate) outputs: OutputSettings,
    /// Predictions and dead letters that the broker refuses for good: where they go instead.
    pub(crate) parked: ParkedSettings,
    /// Labels that arrive later. The daemon measures accuracy with them, and they tell mode auto which candidate is right.
    pub(crate) labels: LabelSettings,
    /// Events that scorers pass on to the learner.
    pub(crate) samples: SampleSettings,
    /// When and how the daemon learns.
    pub(crate) learner: LearnerSection,
    /// What callers get.
    pub(crate) serving: ServingSettings,
    /// Limits of prediction requests, over gRPC and REST alike.
    pub(crate) requests: RequestSettings,
    /// Limits of connections, over gRPC and HTTP alike.
    pub(crate) connections: ConnectionSettings,
    /// The gRPC listeners.
    pub(crate) grpc: GrpcSettings,
    /// The HTTP listener.
    pub(crate) http: HttpSettings,
    /// TLS of all listeners, from PEM files, which are read again when they change.
    pub(crate) tls: TlsSettings,
    /// Who may call.
    pub(crate) auth: AuthSettings,
    /// Where and how often what is learned is saved.
    pub(crate) checkpoints: CheckpointSettings,
    /// Which classes have metrics of their own.
    pub(crate) metrics: MetricsSettings,
    /// The log, written to the standard error.
    pub(crate) log: LogSettings,
    /// How the process ends.
    pub(crate) shutdown: ShutdownSettings,
}

impl Config {
    /// JSON Schema of configuration files.
    pub(crate) fn schema() -> schemars::Schema {
        schemars::schema_for!(Self)
    }
}
