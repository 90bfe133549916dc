//! A snapshot as bytes, for processes that serve what another one learns.

use std::{collections::BTreeMap, sync::Arc};

use ostar_engine::{
    Error, NamedTensors, Result,
    architecture::Network,
    evaluate::ClassifierNetwork,
    tensors::{from_safetensors, read_metadata, to_safetensors},
};
use serde::{Deserialize, Serialize};

use super::{Learner, LearnerSettings, Snapshot, state::parse_header};
use crate::{Candidate, Deployed, gate::GateState, proportions::LabelProportions};

/// Version of the format that [`Learner::save_snapshot`] writes.
const FORMAT_VERSION: u64 = 1;

/// The header's key.
const KEY: &str = "ostar_snapshot";

/// Everything that is not a tensor.
#[derive(Serialize, Deserialize)]
struct Header {
    format_version: u64,
    bundle_digest: String,
    steps: u64,
    candidate: Candidate,
    frozen_proportions: LabelProportions,
    adapted_proportions: LabelProportions,
    gate: GateState,
}

/// A snapshot that another process has taken.
#[derive(Debug, Clone)]
pub struct LoadedSnapshot {
    /// What may be served.
    pub snapshot: Snapshot,
    /// What mode `auto` serves, and why.
    pub gate: GateState,
}

impl Learner {
    /// [`Learner::snapshot`] as bytes: a fraction of [`Learner::save`], which can go on learning.
    pub fn save_snapshot(&self) -> Result<Vec<u8>> {
        let snapshot = self.snapshot();
        let mut tensors = NamedTensors::new();
        if let (Some(adaptation), true) = (&self.adaptation, snapshot.target.is_some()) {
            let saved = &adaptation.good.saved;
            tensors = adaptation
                .engine
                .saved_tensors(saved, Some(Network::TargetClassifier))?;
        }
        let header = Header {
            format_version: FORMAT_VERSION,
            bundle_digest: self.digest.clone(),
            steps: snapshot.steps,
            candidate: snapshot.candidate,
            frozen_proportions: snapshot.frozen_proportions,
            adapted_proportions: snapshot.adapted_proportions,
            gate: self.gate().clone(),
        };
        let json = serde_json::to_string(&header)
            .map_err(|error| Error::setting("snapshot", format!("cannot be written: {error}")))?;
        to_safetensors(&tensors, BTreeMap::from([(KEY.to_owned(), json)]))
    }
}

impl LoadedSnapshot {
    /// Reads what [`Learner::save_snapshot`] wrote. `deployed` must be what was learned with; snapshots share its
    /// frozen model.
    pub fn read(deployed: &Deployed, settings: &LearnerSettings, bytes: &[u8]) -> Result<Self> {
        let header: Header = parse_header("snapshot", &read_metadata(bytes, KEY)?, FORMAT_VERSION)?;
        if header.bundle_digest != deployed.digest {
            return Err(Error::setting(
                "bundle_digest",
                format!(
                    "of the snapshot is {}, expected {}: it was learned with another bundle",
                    header.bundle_digest, deployed.digest
                ),
            ));
        }
        let training = deployed.training_proportions.clone();
        for proportions in [&header.frozen_proportions, &header.adapted_proportions] {
            if proportions.classes() != training.classes() {
                return Err(Error::shape(
                    "proportions of a snapshot",
                    format!("{} classes", training.classes()),
                    format!("{}", proportions.classes()),
                ));
            }
        }
        let tensors = from_safetensors(bytes)?;
        let architecture = deployed.training_architecture(settings.map, settings.critic.clone());
        let target = match architecture {
            Some(architecture) if !tensors.is_empty() => {
                let network = Network::TargetClassifier;
                let target = ClassifierNetwork::new(&architecture, network, &tensors)?;
                Some(Arc::new(target))
            }
            _ => None,
        };
        Ok(Self {
            snapshot: Snapshot {
                steps: header.steps,
                candidate: header.candidate,
                model: deployed.model.clone(),
                target,
                training_proportions: training,
                // Only the learner tells them apart.
                whole_proportions: header.frozen_proportions.clone(),
                frozen_proportions: header.frozen_proportions,
                adapted_proportions: header.adapted_proportions,
            },
            gate: header.gate,
        })
    }
}
