//! A run that is killed half way continues from its last epoch and gives the result of an uninterrupted one.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

mod common;

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use ostar_engine::tensors::read_metadata;
use tempfile::{TempDir, tempdir};

use common::{refusal, succeed, write_digits, write_features};

/// Longer than any of these runs takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What every run here has in common: a checkpoint after every epoch.
const ALWAYS: [&str; 7] = [
    "--data",
    "data",
    "--threads",
    "1",
    "--save-every",
    "0",
    "--resume",
];

fn data() -> TempDir {
    let folder = tempdir().unwrap();
    let data = folder.path().join("data");
    write_digits(&data, "mnist", 28, 25);
    write_digits(&data, "usps", 16, 25);
    write_features(&data.join("visda12.npz"), 2_048, 600, 4);
    folder
}

fn start(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_ostar-experiments"))
        .args(arguments)
        .args(ALWAYS)
        .current_dir(folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The sum of the next epochs of all checkpoints: that of the pretraining, and that of the run after it.
fn progress(unfinished: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(unfinished) else {
        return 0;
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let finished = paths.filter(|path| path.extension().is_some_and(|e| e == "safetensors"));
    finished
        .filter_map(|path| fs::read(path).ok())
        .map(|bytes| {
            let state = read_metadata(&bytes, "state").unwrap();
            let state: serde_json::Value = serde_json::from_str(&state).unwrap();
            state["epoch"].as_u64().unwrap()
        })
        .sum()
}

/// Starts the run and kills it once its checkpoints have reached `epochs`.
fn kill_at(folder: &Path, arguments: &[&str], unfinished: &Path, epochs: u64) {
    let mut child = start(folder, arguments);
    let deadline = Instant::now() + PATIENCE;
    while progress(unfinished) < epochs {
        let ended = child.try_wait().unwrap();
        assert!(
            ended.is_none(),
            "{arguments:?} ended before it could be killed"
        );
        assert!(Instant::now() < deadline, "{arguments:?} takes too long");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(
        !status.success(),
        "{arguments:?} ended before it was killed"
    );
}

/// All columns of all lines but the last one, the seconds.
fn lines(folder: &Path, experiment: &str) -> Vec<String> {
    let path = folder.join(format!("experiments/results/{experiment}.csv"));
    let text = fs::read_to_string(path).unwrap();
    let whole = text.lines().map(|line| line.rsplit_once(',').unwrap().0);
    whole.map(str::to_owned).collect()
}

/// `kills` are sums of epochs at which the run is killed.
fn check(experiment: &str, arguments: &[&str], kills: [u64; 3]) {
    let (killed, whole) = (data(), data());
    let (killed, whole) = (killed.path(), whole.path());
    let unfinished = killed.join(format!("experiments/results/{experiment}.csv.unfinished"));
    for epochs in kills {
        kill_at(killed, arguments, &unfinished, epochs);
    }
    let all = [arguments, &ALWAYS[..]].concat();
    succeed(killed, &all);
    succeed(whole, &all);
    let found = lines(killed, experiment);
    assert!(found.len() > 1, "{found:?}");
    assert_eq!(found, lines(whole, experiment));
    assert!(!unfinished.exists(), "checkpoints are left behind");
}

/// Quick digits pretrain up to epoch 8, align up to 17 and train the encoder, too, up to 24.
const IN_EACH_PART: [u64; 3] = [4, 9 + 13, 9 + 20];

fn digits(method: &str) -> Vec<&str> {
    let arguments = ["digits", "--setting", "m2u-high", "--method", method];
    arguments.to_vec()
}

#[test]
fn ostar_killed_in_pretraining_alignment_and_with_the_encoder_in_training_gives_the_same_result() {
    check("digits", &digits("ostar+im"), IN_EACH_PART);
}

#[test]
fn dann_killed_three_times_gives_the_same_result() {
    check("digits", &digits("dann"), IN_EACH_PART);
}

#[test]
fn a_reweighted_method_killed_three_times_gives_the_same_result() {
    check("digits", &digits("marsc"), IN_EACH_PART);
}

#[test]
fn an_ablation_killed_three_times_gives_the_same_result() {
    let arguments = ["ablation", "--subject", "lambda", "--variant", "lambda=1"];
    check("ablation", &arguments, IN_EACH_PART);
}

/// Two epochs of pretraining, two of alignment, six with the encoder. Dropout draws from the generator in every step.
#[test]
fn features_with_dropout_killed_three_times_give_the_same_result() {
    let set = ["features", "--set", "visda12", "--setting"];
    let more = ["amazon-webcam", "--method", "ostar+im"];
    let arguments = [&set[..], &more].concat();
    check("features", &arguments, [2, 3 + 5, 3 + 8]);
}

#[test]
fn a_checkpoint_of_a_run_with_other_settings_is_refused_and_named() {
    let folder = data();
    let folder = folder.path();
    let unfinished = folder.join("experiments/results/digits.csv.unfinished");
    kill_at(folder, &digits("ostar"), &unfinished, 4);
    let mut arguments = [&digits("ostar")[..], &ALWAYS].concat();
    let threads = arguments.iter().position(|a| *a == "1").unwrap();
    arguments[threads] = "2";
    let message = refusal(folder, &arguments);
    assert!(
        message.contains("other data, settings or threads"),
        "{message}"
    );
    assert!(
        message.contains("digits-quick-m2u-high-fill-pretraining-0.safetensors"),
        "{message}"
    );
}
