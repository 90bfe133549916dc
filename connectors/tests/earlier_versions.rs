//! Bundles and checkpoints of earlier versions load and go on learning; `fixtures/README.md` tells how they were made.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use ostar_bundle::{
    Bundle, Input,
    fields::{FieldBlock, FieldSchema, FieldValue},
};
use ostar_connectors::checkpoint::{Checkpoint, CheckpointStore};
use ostar_engine::{
    Inputs, Rows,
    architecture::{CriticShape, MapShape, Norm},
};
use ostar_method::{
    Candidate,
    learner::{Learner, LearnerSettings, Scores},
    proportions::LabelProportions,
};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

/// Probabilities are compared to this: processors differ in the last bits.
const TOLERANCE: f64 = 1e-5;

/// One folder of fixtures, opened with the present code.
struct Fixture {
    bundle: Bundle,
    checkpoint: Checkpoint,
    /// What the earlier program said of the same state.
    recorded: Value,
    /// A copy of the checkpoints: opening them for writing leaves a lock file.
    store: CheckpointStore,
    _copy: TempDir,
}

impl Fixture {
    fn open(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v0.1");
        let folder = folder.join(name);
        let copy = tempdir().unwrap();
        copy_folder(&folder.join("checkpoints"), copy.path());
        let store = CheckpointStore::open(copy.path(), 3).unwrap();
        Self {
            bundle: Bundle::load(&folder.join("bundle")).unwrap(),
            checkpoint: store.newest().unwrap().unwrap(),
            recorded: serde_json::from_slice(&fs::read(folder.join("recorded.json")).unwrap())
                .unwrap(),
            store,
            _copy: copy,
        }
    }

    fn learner(&self) -> Learner {
        Learner::load(
            &self.bundle.deployed().unwrap(),
            settings(),
            &self.checkpoint.state,
        )
        .unwrap()
    }

    /// Manifest and state tell the same as the earlier program did.
    fn check_progress(&self, learner: &Learner) {
        let (manifest, recorded) = (&self.checkpoint.manifest, &self.recorded);
        let description = self.bundle.description();
        assert_eq!(manifest.bundle_digest, self.bundle.digest());
        assert_eq!(manifest.bundle_name, description.name);
        assert_eq!(manifest.classes, description.classes);
        assert_eq!((manifest.epoch, &*manifest.topic), (2, "mails"));
        assert_eq!(manifest.offsets[&0], manifest.events as i64);
        assert_eq!(recorded["steps"], manifest.step);
        assert_eq!(recorded["steps"], learner.steps());
        assert_eq!(recorded["blocks"], manifest.blocks);
        assert_eq!(recorded["blocks"], learner.blocks());
        let proportions: LabelProportions =
            serde_json::from_value(recorded["proportions"].clone()).unwrap();
        assert_eq!(manifest.proportions, proportions);
        assert_eq!(*learner.proportions(), proportions);
    }

    /// Every candidate predicts the first ten recorded events as it did then.
    fn check_scores(&self, learner: &Learner, first_ten: Inputs<'_>) {
        let mut scores = Scores::default();
        learner.snapshot().score(first_ten, &mut scores).unwrap();
        for candidate in Candidate::ALL {
            let name = candidate.name();
            let expected = &self.recorded["scores_of_the_first_ten"][name];
            let expected = expected.as_array().unwrap();
            let found = scores.of(candidate);
            assert_eq!(found.len(), 10 * self.bundle.classes(), "{name}");
            assert_eq!(found.len(), expected.len(), "{name}");
            for (found, expected) in found.iter().zip(expected) {
                let difference = f64::from(*found) - expected.as_f64().unwrap();
                assert!(difference.abs() < TOLERANCE, "{name}: {difference}");
            }
        }
    }

    /// The state is written as a checkpoint of this version, which loads again.
    fn check_saved(&self, learner: &Learner) {
        let lock = self.store.try_lock().unwrap().unwrap();
        let state = learner.save().unwrap();
        let manifest = &self.checkpoint.manifest;
        self.store.write(&lock, manifest, &state).unwrap();
        let newest = self.store.newest().unwrap().unwrap();
        assert_ne!(newest.path, self.checkpoint.path);
        let reloaded =
            Learner::load(&self.bundle.deployed().unwrap(), settings(), &newest.state).unwrap();
        assert!(reloaded.save().unwrap() == state);
    }
}

/// Shapes and sizes of the learner whose state was saved.
fn settings() -> LearnerSettings {
    LearnerSettings {
        batch: 50,
        window: 2_000,
        map: MapShape {
            blocks: 2,
            norm: Norm::Layer,
        },
        critic: CriticShape {
            hidden: vec![16, 16],
        },
        threads: 1,
        ..LearnerSettings::default()
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn field_rows(schema: &FieldSchema, events: &[Value]) -> FieldBlock {
    let mut block = FieldBlock::default();
    for event in events {
        let value = |name: &str| match &event[name] {
            Value::String(text) => FieldValue::Text(text),
            Value::Number(number) => FieldValue::Number(number.as_f64().unwrap()),
            _ => FieldValue::Missing,
        };
        schema.push(value, &mut block).unwrap();
    }
    block
}

#[test]
fn a_checkpoint_of_version_0_1_loads_predicts_the_same_and_goes_on_learning() {
    let fixture = Fixture::open("fields");
    let Input::Fields(schema) = &fixture.bundle.description().input else {
        panic!("the fixture's events are named fields");
    };
    let events = fixture.recorded["events"].as_array().unwrap();
    let mut learner = fixture.learner();
    fixture.check_progress(&learner);
    fixture.check_scores(&learner, field_rows(schema, &events[..10]).inputs());

    let (steps, blocks) = (learner.steps(), learner.blocks());
    let report = learner
        .observe(field_rows(schema, events).inputs())
        .unwrap();
    assert_eq!(report.rows, events.len());
    let (step, refresh) = learner.step().unwrap();
    let refresh = refresh.expect("the state was saved after 60 steps, and every tenth refreshes");
    assert!(refresh.distance_after_map.is_finite());
    assert_eq!(step.steps, steps + 1);
    assert_eq!((learner.steps(), learner.blocks()), (steps + 1, blocks + 1));
    fixture.check_saved(&learner);
}

#[test]
fn a_black_box_s_checkpoint_of_version_0_1_loads_predicts_the_same_and_follows_on() {
    let fixture = Fixture::open("black_box");
    let events: Vec<f32> = serde_json::from_value(fixture.recorded["events"].clone()).unwrap();
    let classes = fixture.bundle.classes();
    let inputs =
        |rows: usize| Inputs::Dense(Rows::new(&events[..rows * classes], classes).unwrap());
    let mut learner = fixture.learner();
    fixture.check_progress(&learner);
    fixture.check_scores(&learner, inputs(10));

    let blocks = learner.blocks();
    let report = learner.observe(inputs(100)).unwrap();
    assert_eq!((report.rows, learner.blocks()), (100, blocks + 1));
    fixture.check_saved(&learner);
}
