//! The configuration: defaults, then a file, then environment variables, then flags.
//!
//! Layers are laid over one another as plain values that remember where they came from ([`tree`]). What
//! each key may hold comes from the JSON Schema of [`Config`] ([`shape`]), so that unknown keys and wrong
//! types are all found at once ([`check`]), texts of variables and flags get the right type, and the schema
//! that `config schema` shows is the one that is used.

mod check;
mod layers;
mod listeners;
mod print;
mod problems;
mod read;
mod renamed;
mod requests;
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

pub(crate) use layers::{Flag, Layers};
pub(crate) use listeners::{AuthSettings, GrpcSettings, HttpSettings, ServeSettings, TlsSettings};
pub(crate) use problems::Problems;
pub(crate) use read::Reading;
pub(crate) use requests::RequestSettings;
pub(crate) use sections::{
    BundleSettings, CheckpointSettings, LearnerSection, LogFormat, LogSettings, OnBundleChange,
    ServingSettings, ShutdownSettings, WhenBehind,
};

use ostar_connectors::{
    event::EventSettings,
    kafka::{DeadLetterSettings, KafkaSettings, PredictionSettings},
    labels::LabelSettings,
};

/// Everything that can be set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The model that a user brings.
    pub(crate) bundle: BundleSettings,
    /// Where events come from.
    pub(crate) kafka: KafkaSettings,
    /// How events are decoded.
    pub(crate) events: EventSettings,
    /// Where predictions go.
    pub(crate) predictions: PredictionSettings,
    /// Where events go that cannot be used, and how many are too many.
    pub(crate) dead_letters: DeadLetterSettings,
    /// Labels that arrive later, used only to measure.
    pub(crate) labels: LabelSettings,
    /// When and how the learner learns.
    pub(crate) learner: LearnerSection,
    /// What is served.
    pub(crate) serving: ServingSettings,
    /// Limits of prediction requests, over gRPC and REST alike.
    pub(crate) requests: RequestSettings,
    /// Where gRPC listens.
    pub(crate) grpc: GrpcSettings,
    /// The HTTP listener.
    pub(crate) http: HttpSettings,
    /// TLS of the listeners.
    pub(crate) tls: TlsSettings,
    /// Who may call.
    pub(crate) auth: AuthSettings,
    /// The state that lasts.
    pub(crate) checkpoints: CheckpointSettings,
    /// What is logged, and how.
    pub(crate) log: LogSettings,
    /// How the process ends.
    pub(crate) shutdown: ShutdownSettings,
}

impl Config {
    /// The sections that serving needs.
    pub(crate) fn serve_settings(&self) -> ServeSettings {
        ServeSettings {
            requests: self.requests.clone(),
            grpc: self.grpc.clone(),
            http: self.http.clone(),
            tls: self.tls.clone(),
            auth: self.auth.clone(),
        }
    }

    /// JSON Schema of configuration files.
    pub(crate) fn schema() -> schemars::Schema {
        schemars::schema_for!(Self)
    }
}
