//! What is served now: an immutable snapshot behind an atomic swap, and the serving mode.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use arc_swap::{ArcSwap, Guard};
use ostar_connectors::checkpoint::Orders;
pub(crate) use ostar_connectors::checkpoint::Version;
use ostar_method::{Candidate, learner::Snapshot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::named::named;

/// A snapshot and its version.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) snapshot: Snapshot,
    pub(crate) version: Version,
}

named! {
    /// Which candidate's predictions are served.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum ServingMode {
        /// The model as it was deployed.
        Frozen = "frozen",
        /// The frozen model, corrected to the stream's proportions.
        Prior = "prior",
        /// The adapted model.
        Adapted = "adapted",
        /// Serves the frozen model; the others are computed and measured.
        Shadow = "shadow",
        /// What the gate chooses after every block.
        Auto = "auto",
    }
}

/// The newest snapshot. Readers never lock and never wait for the learner.
pub(crate) struct Current {
    served: ArcSwap<Served>,
    /// Index into [`ServingMode::NAMED`]. Changed by orders, read with every prediction.
    mode: AtomicU8,
    configured: ServingMode,
}

// === impl ServingMode ===

impl ServingMode {
    /// The mode of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let found = Self::NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, mode)| *mode)
    }

    /// The candidate whose predictions callers get; `gate` is what the snapshot's gate chose.
    pub(crate) fn candidate(self, gate: Candidate) -> Candidate {
        match self {
            Self::Auto => gate,
            Self::Frozen | Self::Shadow => Candidate::Frozen,
            Self::Prior => Candidate::Prior,
            Self::Adapted => Candidate::Adapted,
        }
    }

    /// Whether alignment steps are taken even while label shift explains the stream: where the adapted model is
    /// served or measured whatever the gate says.
    pub(crate) fn always_aligns(self) -> bool {
        matches!(self, Self::Adapted | Self::Shadow)
    }
}

// === impl Current ===

impl Current {
    pub(crate) fn new(snapshot: Snapshot, version: Version, mode: ServingMode) -> Arc<Self> {
        Arc::new(Self {
            served: ArcSwap::from_pointee(Served { snapshot, version }),
            mode: AtomicU8::new(mode as u8),
            configured: mode,
        })
    }

    pub(crate) fn load(&self) -> Guard<Arc<Served>> {
        self.served.load()
    }

    pub(crate) fn publish(&self, snapshot: Snapshot, version: Version) {
        self.served.store(Arc::new(Served { snapshot, version }));
    }

    pub(crate) fn mode(&self) -> ServingMode {
        ServingMode::NAMED[usize::from(self.mode.load(Ordering::Relaxed))].1
    }

    /// `serving.mode`, whatever was ordered.
    pub(crate) fn configured_mode(&self) -> ServingMode {
        self.configured
    }

    /// The mode that was ordered, if it was with the same configuration; else the configured one.
    pub(crate) fn mode_by(&self, orders: &Orders) -> ServingMode {
        let ordered = orders.mode.as_deref().and_then(ServingMode::named);
        let configured = self.configured;
        let is_of_configuration = orders.configured_mode.as_deref() == Some(configured.name());
        ordered
            .filter(|_| is_of_configuration)
            .unwrap_or(configured)
    }

    pub(crate) fn set_mode(&self, mode: ServingMode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }
}
