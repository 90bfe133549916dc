//! 100 blocks in one run give the same bytes as 50 blocks, a save, a load in a new process, and 50 more.
//!
//! The new process is this test binary, started again for one test, with the folder in an environment variable.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use ostar_bundle::Bundle;
use ostar_engine::{Generator, Inputs, Rows};
use ostar_method::learner::Learner;

use crate::two_classes::{draw, learn, settings};

/// Environment variable with the folder of the bundle and state that the first process wrote.
const FOLDER: &str = "OSTAR_TEST_RESUME_FOLDER";
const BLOCKS: usize = 100;
const BLOCK_ROWS: usize = 100;

/// The logits of a model that sees rows of one number.
fn logits(values: &[f32]) -> Vec<f32> {
    values.iter().flat_map(|value| [-value, *value]).collect()
}

fn latent_bundle() -> Bundle {
    crate::two_classes::bundle(4)
}

/// A model that exposes only its logits.
fn black_box_bundle() -> Bundle {
    let (values, labels) = draw(2000, 1, 0.5, &mut Generator::new(1));
    let second = values
        .iter()
        .map(|value| 1.0 / (1.0 + (-2.0 * value).exp()));
    let probabilities = second.flat_map(|second| [1.0 - second, second]).collect();
    crate::two_classes::black_box(probabilities, labels)
}

/// A test case, known to both processes.
struct Scenario {
    /// Name of the test, which the second process runs.
    test: &'static str,
    bundle: fn() -> Bundle,
    /// How many numbers a drawn row has.
    width: usize,
    black_box: bool,
}

impl Scenario {
    /// Blocks in which the proportion of the second class drifts.
    fn stream(&self) -> Vec<Vec<f32>> {
        let mut generator = Generator::new(2);
        let proportion = |block: usize| 0.2 + 0.6 * block as f64 / BLOCKS as f64;
        (0..BLOCKS)
            .map(|block| draw(BLOCK_ROWS, self.width, proportion(block), &mut generator).0)
            .map(|rows| if self.black_box { logits(&rows) } else { rows })
            .collect()
    }

    fn feed(&self, learner: &mut Learner, blocks: &[Vec<f32>]) {
        for block in blocks {
            let rows = Rows::new(&block[..], block.len() / BLOCK_ROWS).unwrap();
            learn(learner, Inputs::Dense(rows)).unwrap();
            if !self.black_box {
                learner.step().unwrap();
            }
        }
    }

    fn run(&self) {
        match env::var_os(FOLDER) {
            Some(folder) => self.continue_in(&PathBuf::from(folder)),
            None => self.compare(),
        }
    }

    /// Runs all blocks here and half of them in a second process, and compares.
    fn compare(&self) {
        let bundle = (self.bundle)();
        let stream = self.stream();
        let mut whole = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
        self.feed(&mut whole, &stream);

        let mut half = Learner::new(&bundle.deployed().unwrap(), settings()).unwrap();
        self.feed(&mut half, &stream[..BLOCKS / 2]);
        let folder = env::temp_dir().join(format!("ostar-{}-{}", self.width, std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        bundle.save(&folder).unwrap();
        fs::write(folder.join("state"), half.save().unwrap()).unwrap();
        let second = Command::new(env::current_exe().unwrap())
            .args([self.test, "--exact"])
            .env(FOLDER, &folder)
            .output()
            .unwrap();
        assert!(second.status.success(), "{second:?}");
        let resumed = fs::read(folder.join("resumed")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(resumed == whole.save().unwrap());
    }

    /// In the second process: loads the state and runs the other half.
    fn continue_in(&self, folder: &Path) {
        let bundle = Bundle::load(folder).unwrap();
        let state = fs::read(folder.join("state")).unwrap();
        let mut learner = Learner::load(&bundle.deployed().unwrap(), settings(), &state).unwrap();
        self.feed(&mut learner, &self.stream()[BLOCKS / 2..]);
        fs::write(folder.join("resumed"), learner.save().unwrap()).unwrap();
    }
}

#[test]
fn a_learner_loaded_in_a_new_process_continues_byte_by_byte() {
    let scenario = Scenario {
        test: "resume::a_learner_loaded_in_a_new_process_continues_byte_by_byte",
        bundle: latent_bundle,
        width: 4,
        black_box: false,
    };
    scenario.run();
}

#[test]
fn a_black_box_s_learner_loaded_in_a_new_process_continues_byte_by_byte() {
    let scenario = Scenario {
        test: "resume::a_black_box_s_learner_loaded_in_a_new_process_continues_byte_by_byte",
        bundle: black_box_bundle,
        width: 1,
        black_box: true,
    };
    scenario.run();
}
