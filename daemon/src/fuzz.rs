//! Files that the daemon reads at its start: bundle, learned state, configuration.

use std::fs;

use ostar_bundle::{Bundle, BundleFiles};
use ostar_engine::{Inputs, Rows};
use ostar_method::learner::{Learner, LearnerSettings, LoadedSnapshot, Scores};

use crate::{
    config::{Layers, Reading},
    serving::fixture,
};

/// One of the bundle's files is changed, and its first byte says which.
#[test]
fn fuzz_bundle() {
    let files = fixture::bundle().to_files().unwrap();
    let weights = files.weights.clone().unwrap_or_default();
    let tagged = |tag: u8, bytes: &[u8]| [&[tag], bytes].concat();
    let seeds = [
        tagged(0, &files.description),
        tagged(1, &weights),
        tagged(2, &files.source),
        tagged(3, files.inputs.as_deref().unwrap_or_default()),
    ];
    ostar_fuzzing::fuzz!("bundle", seeds, |bytes: &[u8]| {
        let Some((tag, bytes)) = bytes.split_first() else {
            return;
        };
        let mut changed = BundleFiles {
            description: files.description.clone(),
            weights: files.weights.clone(),
            source: files.source.clone(),
            inputs: files.inputs.clone(),
            onnx: None,
        };
        match tag % 4 {
            0 => changed.description = bytes.to_vec(),
            1 => changed.weights = Some(bytes.to_vec()),
            2 => changed.source = bytes.to_vec(),
            _ => changed.inputs = Some(bytes.to_vec()),
        }
        if let Ok(bundle) = Bundle::from_files(&changed) {
            assert!(bundle.classes() >= 2);
        }
    });
}

#[test]
fn fuzz_learned_state() {
    let bundle = fixture::bundle();
    let settings = || LearnerSettings {
        batch: 50,
        window: 1000,
        ..LearnerSettings::default()
    };
    let learner = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
    let seeds = [learner.save().unwrap()];
    ostar_fuzzing::fuzz!("learned_state", seeds, |bytes: &[u8]| {
        if let Ok(learner) = Learner::load(&bundle.deployed().unwrap(), settings(), bytes) {
            drop(learner.snapshot());
        }
    });
}

/// What scorers read from the state topic.
#[test]
fn fuzz_snapshot() {
    let bundle = fixture::bundle();
    let settings = LearnerSettings::default();
    let learner = Learner::new(&bundle.deployed().unwrap(), settings.clone()).unwrap();
    let seeds = [learner.save_snapshot().unwrap()];
    let row = [0.5; 4];
    ostar_fuzzing::fuzz!("snapshot", seeds, |bytes: &[u8]| {
        if let Ok(read) = LoadedSnapshot::read(&bundle.deployed().unwrap(), &settings, bytes) {
            let inputs = Inputs::Dense(Rows::new(&row[..], 4).unwrap());
            read.snapshot.score(inputs, &mut Scores::default()).unwrap();
        }
    });
}

#[test]
fn fuzz_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = [
        include_bytes!("config/default.toml").to_vec(),
        b"[kafka]\nbrokers = \"a:1\"\ntopic = \"t\"\n[learner]\nblock = 500\n".to_vec(),
    ];
    ostar_fuzzing::fuzz!("configuration", seeds, |bytes: &[u8]| {
        for name in ["ostard.toml", "ostard.yaml"] {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            let layers = Layers {
                file: Some(path),
                ..Layers::default()
            };
            let _ = Reading::new(&layers).valid();
        }
    });
}
