//! The official Python client, which learns the services by reflection.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use ostar_tests::{gaussians, kafka::Kafka};
use serde_json::Value;

use crate::{Place, Test, requests::Secrets, start};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "the_python_client_predicts_by_reflection_and_sees_the_health",
    python_client,
)];

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/reflection_client.py");
const REQUIREMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/python/requirements.txt");

/// What a virtual environment needs and this machine lacks.
pub(crate) fn missing_tool() -> Option<&'static str> {
    let has = |modules: &str| {
        let mut command = Command::new("python3");
        let command = command.args(["-c", modules]).stdin(Stdio::null());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    match (has(""), has("import ensurepip, venv")) {
        (false, _) => Some("python3"),
        (true, false) => Some("pip"),
        (true, true) => None,
    }
}

fn python_client(kafka: &mut Kafka) -> Result<()> {
    let python = environment()?;
    let place = Place::new()?;
    let secrets = Secrets::write(place.folder.path())?;
    kafka.create_topic("python", 1, &[])?;
    let settings = secrets.asked_for_by(place.settings(kafka, "python", "state"));
    let daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    let address = daemon.address("grpc_address")?;
    let (rows, _) = gaussians::draw(1, 1.0, 0.0, 5);
    let ask = || {
        let mut command = Command::new(&python);
        command.arg(SCRIPT).args(["--address", &address]);
        command.arg("--ca").arg(&secrets.certificate);
        command.args(["--latent", &serde_json::json!(rows[0]).to_string()]);
        command
    };
    let answer = run(ask().arg("--token-file").arg(&secrets.token))?;
    let answer: Value = serde_json::from_str(&answer).context("the script's output")?;
    let prediction = &answer["predictions"][0];
    ensure!(prediction["className"] == "spam", "{answer}");
    let probabilities = prediction["probabilities"].as_array();
    let sum: Option<f64> = probabilities.and_then(|all| all.iter().map(Value::as_f64).sum());
    ensure!(sum.is_some_and(|sum| (sum - 1.0).abs() < 1e-5), "{answer}");
    ensure!(answer["version"]["epoch"] == "1", "{answer}");

    let refused = run(&mut ask()).err().map(|error| error.to_string());
    ensure!(
        refused
            .as_ref()
            .is_some_and(|text| text.contains("UNAUTHENTICATED")),
        "without a token: {refused:?}"
    );
    daemon.stop_cleanly()
}

/// A Python with the packages, made the first time and kept outside the checkout.
fn environment() -> Result<PathBuf> {
    let wanted = fs::read_to_string(REQUIREMENTS).context(REQUIREMENTS)?;
    let folder = ostar_tests::cache_folder()?.join("python");
    let python = folder.join("bin/python");
    // Written last: an environment without it, or for other packages, is made anew.
    let made_for = folder.join("made-for.txt");
    if fs::read_to_string(&made_for).is_ok_and(|packages| packages == wanted) {
        return Ok(python);
    }
    let make = ["-m", "venv", "--clear"];
    run(Command::new("python3").args(make).arg(&folder))?;
    let install = ["-m", "pip", "install", "--quiet", "--requirement"];
    run(Command::new(&python)
        .args(install)
        .arg(Path::new(REQUIREMENTS)))?;
    fs::write(made_for, wanted)?;
    Ok(python)
}

/// Standard output of a command; an error has what it wrote to the other stream.
fn run(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}
