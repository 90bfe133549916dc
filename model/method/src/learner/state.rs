//! The learner's state as bytes: tensors, and everything else as JSON in their header.

use std::collections::BTreeMap;

use ostar_engine::{
    Device, Error, Generator, HostTensor, NamedTensors, Result, Rows,
    tensors::{from_safetensors, read_bytes, read_metadata, require, to_safetensors_with_bytes},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Learner, LearnerSettings,
    adaptation::{Adaptation, GoodState, estimator},
    effort::Effort,
    labels::{LabelBook, SavedBook},
    tracked::TrackedProportions,
    transport_weight::TransportWeightSolver,
    window::TargetWindow,
};
use crate::{
    Deployed,
    alarms::AlarmMemory,
    diagnostics::{Directions, RefusalCount},
    gate::GateMemory,
    proportions::{LabelProportions, ProportionEstimate, Tracker},
};

/// Version of the format that [`Learner::save`] writes.
pub const STATE_FORMAT_VERSION: u64 = 1;

/// The header's key; one key, so that equal states are equal bytes.
const KEY: &str = "ostar_state";
/// Name of the bytes of events that wait for a label.
const LABELS: &str = "labels";

/// Everything that is not a tensor.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format_version: u64,
    bundle_digest: String,
    blocks: u64,
    generator: Generator,
    frozen: Followed,
    adaptation: Option<AdaptationHeader>,
    gate: GateMemory,
    effort: Effort,
    alarms: AlarmMemory,
    /// `None` if no labels are read. The events that wait for one are in [`LABELS`].
    labels: Option<SavedBook>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Followed {
    tracker: Tracker,
    estimate: Option<ProportionEstimate>,
    /// What was expected of the next rows.
    expected: Option<LabelProportions>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdaptationHeader {
    window: TargetWindow,
    adapted: Followed,
    alignment_proportions: Option<LabelProportions>,
    largest_deformation: f64,
    transport: TransportWeightSolver,
    steps: u64,
    refusals: RefusalCount,
    directions: Directions,
    good_steps: u64,
}

impl Learner {
    /// The whole state. [`Learner::load`] continues from it as if nothing had happened.
    pub fn save(&self) -> Result<Vec<u8>> {
        let mut tensors = NamedTensors::new();
        if let Some(adaptation) = &self.adaptation {
            adaptation.save_tensors(self.training_proportions.classes(), &mut tensors)?;
        }
        let mut header = Header {
            format_version: STATE_FORMAT_VERSION,
            bundle_digest: self.digest.clone(),
            blocks: self.blocks,
            generator: self.generator.clone(),
            frozen: Followed::of(&self.frozen),
            adaptation: self.adaptation.as_ref().map(AdaptationHeader::of),
            gate: self.gate.memory().clone(),
            effort: self.effort,
            alarms: self.alarms.memory(),
            labels: None,
        };
        let mut bytes = BTreeMap::new();
        if let Some(book) = &self.labels {
            let (saved, waiting) = book.save();
            header.labels = Some(saved);
            bytes.insert(LABELS.to_owned(), waiting);
        }
        let json = serde_json::to_string(&header)
            .map_err(|error| Error::setting("state", format!("cannot be written: {error}")))?;
        to_safetensors_with_bytes(&tensors, &bytes, BTreeMap::from([(KEY.to_owned(), json)]))
    }

    /// A learner as it was when it was saved. `bundle` must be the one it learned with, and the shapes in
    /// `settings` those it had; other settings may differ.
    pub fn load(deployed: &Deployed, settings: LearnerSettings, bytes: &[u8]) -> Result<Self> {
        Self::load_on(Device::Cpu, deployed, settings, bytes)
    }

    /// [`Learner::load`] on a device, which need not be the one that the state was saved on. Learning goes on from the
    /// same numbers; that it gives the same bytes is promised on the same device only.
    pub fn load_on(
        device: Device,
        deployed: &Deployed,
        settings: LearnerSettings,
        bytes: &[u8],
    ) -> Result<Self> {
        let mut learner = Self::on(device, deployed, settings)?;
        let json = read_metadata(bytes, KEY)?;
        let header: Header = parse_header("state", &json, STATE_FORMAT_VERSION)?;
        if header.bundle_digest != learner.digest {
            return Err(Error::setting(
                "bundle_digest",
                format!(
                    "of the state is {}, expected {}: it was learned with another bundle",
                    header.bundle_digest, learner.digest
                ),
            ));
        }
        let mut tensors = from_safetensors(bytes)?;
        // Read apart, as bytes.
        tensors.remove(LABELS);
        match (&mut learner.adaptation, header.adaptation) {
            (Some(adaptation), Some(saved)) => {
                adaptation.load(&learner.settings, saved, tensors)?;
                adaptation.restore_mapped_shape(&learner.gate)?;
            }
            (None, None) => {}
            _ => {
                return Err(Error::setting(
                    "adaptation",
                    "is there for a model with latents only, and the bundle is of the other kind",
                ));
            }
        }
        header.frozen.restore(&mut learner.frozen);
        learner.gate.restore(header.gate);
        learner.gate.serve_for(learner.settings.objective);
        learner.gate.use_labels(learner.settings.labels.is_some());
        learner.alarms.restore(header.alarms);
        if let (Some(labels), Some(saved)) = (learner.settings.labels, header.labels) {
            let waiting = read_bytes(bytes, LABELS)?;
            let classes = learner.training_proportions.classes();
            learner.labels = Some(LabelBook::restore(saved, waiting, labels, classes)?);
        }
        learner.effort = header.effort;
        learner.blocks = header.blocks;
        learner.generator = header.generator;
        Ok(learner)
    }
}

/// Looks at the version first: another format may have keys that would be refused as unknown.
pub(super) fn parse_header<H: DeserializeOwned>(what: &str, json: &str, known: u64) -> Result<H> {
    #[derive(Deserialize)]
    struct Version {
        format_version: u64,
    }
    let broken = |error: serde_json::Error| Error::setting(what, format!("header: {error}"));
    let Version { format_version } = serde_json::from_str(json).map_err(broken)?;
    if format_version != known {
        let problem = format!(
            "of the {what} is {format_version}, this version reads {known}: use the ostard that wrote it"
        );
        return Err(Error::setting("format_version", problem));
    }
    serde_json::from_str(json).map_err(broken)
}

// === impl Followed ===

impl Followed {
    fn of(tracked: &TrackedProportions) -> Self {
        let border = tracked.border();
        Self {
            tracker: border.tracker,
            estimate: tracked.estimate.clone(),
            expected: border.proportions,
        }
    }

    fn restore(self, tracked: &mut TrackedProportions) {
        tracked.restore(self.tracker, self.estimate, self.expected);
    }
}

// === impl AdaptationHeader ===

impl AdaptationHeader {
    fn of(adaptation: &Adaptation) -> Self {
        Self {
            window: adaptation.window.clone(),
            adapted: Followed::of(&adaptation.adapted),
            alignment_proportions: adaptation.alignment_proportions.clone(),
            largest_deformation: adaptation.good.largest_deformation,
            transport: adaptation.transport.clone(),
            steps: adaptation.steps,
            refusals: adaptation.refusals,
            directions: adaptation.directions.clone(),
            good_steps: adaptation.good.steps,
        }
    }
}

// === impl Adaptation ===

impl Adaptation {
    fn save_tensors(&self, classes: usize, tensors: &mut NamedTensors) -> Result<()> {
        let named = |prefix: &str, from: NamedTensors| {
            let prefix = prefix.to_owned();
            from.into_iter()
                .map(move |(name, tensor)| (format!("{prefix}.{name}"), tensor))
        };
        tensors.extend(named("engine", self.engine.export()?));
        tensors.extend(named(
            "good",
            self.engine.saved_tensors(&self.good.saved, None)?,
        ));
        let matrix = |values: &Vec<f32>, width: usize| {
            HostTensor::f32([values.len() / width, width], values.clone())
        };
        let mut translations = |name: &str, values: &Vec<f32>| {
            tensors.insert(name.into(), matrix(values, self.source.width()));
        };
        translations("translations", &self.source.translations().to_vec());
        translations("good_translations", &self.good.translations);
        let window = self.window_latents()?;
        tensors.insert("window".into(), matrix(&window, self.source.width()));
        tensors.insert("held_out".into(), matrix(&self.held_out, classes));
        if !self.good.mapped_latents.is_empty() {
            let mapped = matrix(&self.good.mapped_latents, self.source.width());
            tensors.insert("good_mapped_held_out".into(), mapped);
        }
        Ok(())
    }

    fn load(
        &mut self,
        settings: &LearnerSettings,
        saved: AdaptationHeader,
        tensors: NamedTensors,
    ) -> Result<()> {
        let width = self.source.width();
        let window = require(&tensors, "window", &[saved.window.len(), width])?.to_f32();
        let rows = self.source.held_out().labels.len();
        let classes = self.engine.architecture().classes;
        let held_out = require(&tensors, "held_out", &[rows, classes])?.to_f32();
        let shape = [classes, width];
        let translations = require(&tensors, "translations", &shape)?.to_f32();
        let good_translations = require(&tensors, "good_translations", &shape)?.to_f32();
        let part = |prefix: &str| -> NamedTensors {
            let of = tensors.iter().filter_map(|(name, tensor)| {
                let rest = name.strip_prefix(prefix)?;
                Some((rest.to_owned(), tensor.clone()))
            });
            of.collect()
        };
        self.engine.import(&part("engine."))?;
        if !window.is_empty() {
            self.engine.set_target(0, Rows::new(&window[..], width)?)?;
        }
        let good = self.engine.to_saved(&part("good."))?;
        let engine = self.engine.as_ref();
        self.good = GoodState::new(engine, good, good_translations, saved.good_steps)?;
        self.good.largest_deformation = saved.largest_deformation;
        if tensors.contains_key("good_mapped_held_out") {
            let mapped = require(&tensors, "good_mapped_held_out", &[rows, width])?;
            self.good.mapped_latents = mapped.to_f32();
        }
        self.source.translate(translations);
        self.set_translated_source()?;
        self.adapted.estimator = estimator(settings, &self.source, &held_out, &self.prior)?;
        saved.adapted.restore(&mut self.adapted);
        self.held_out = held_out;
        self.window = saved.window;
        self.alignment_proportions = saved.alignment_proportions;
        self.transport = saved.transport;
        self.steps = saved.steps;
        self.refusals = saved.refusals;
        self.directions = saved.directions;
        Ok(())
    }
}
