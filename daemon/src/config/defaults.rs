//! The defaults, compiled in from `default.toml`: the one place where they stand.

use std::sync::LazyLock;

use config::FileFormat;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    CheckpointSettings, Config, ConnectionSettings, GrpcSettings, HttpSettings, LearnerSection,
    LogSettings, MetricsSettings, RequestSettings, ServingSettings, ShutdownSettings, TlsSettings,
    layers::parse,
    tree::{Origin, Tree},
};

/// The defaults, which are also their documentation.
pub(super) const TEXT: &str = include_str!("default.toml");

static TREE: LazyLock<Tree> = LazyLock::new(|| {
    parse(TEXT, FileFormat::Toml, &Origin::Default).expect("a test reads the defaults")
});

static VALUES: LazyLock<Value> = LazyLock::new(|| TREE.to_json());

pub(super) fn tree() -> Tree {
    TREE.clone()
}

// Sections carry `schemars(default)` but not `serde(default)`: serde would ask for the default of a section in order
// to read the default of that section.
macro_rules! from_file {
    ($($section:ty: $key:literal),* $(,)?) => {
        $(impl Default for $section {
            fn default() -> Self {
                read(&VALUES[$key])
            }
        })*
    };
}

from_file! {
    LearnerSection: "learner",
    ServingSettings: "serving",
    RequestSettings: "requests",
    ConnectionSettings: "connections",
    GrpcSettings: "grpc",
    HttpSettings: "http",
    TlsSettings: "tls",
    CheckpointSettings: "checkpoints",
    MetricsSettings: "metrics",
    LogSettings: "log",
    ShutdownSettings: "shutdown",
}

impl Default for Config {
    fn default() -> Self {
        read(&VALUES)
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).expect("a test reads the defaults")
}
