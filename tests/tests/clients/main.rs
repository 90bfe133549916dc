//! The clients of Triton and KServe against the daemon, which serves without a broker. Where Python is missing the
//! tests are ignored, unless CI or OSTARD_REQUIRE_SERVICES is set.

mod documentation;

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians,
    harness::trial,
    python::{environment, missing_tool, output, script},
};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ostard-under-test");
/// An address that refuses connections: nothing listens on the port of tcpmux.
const CLOSED_PORT: &str = "127.0.0.1:1";

type Test = fn() -> Result<()>;

const TESTS: [(&str, Test); 3] = [
    (
        "tritonclient_gets_metadata_readiness_and_predictions_and_is_told_its_mistakes",
        triton_client,
    ),
    (
        "kserves_client_gets_metadata_readiness_and_predictions_and_is_told_its_mistakes",
        kserve_client,
    ),
    (
        "the_examples_of_the_documentation_do_what_they_say",
        documentation::examples,
    ),
];

fn main() {
    let mut arguments = Arguments::from_args();
    // They share a Python environment, which the first one makes.
    arguments.test_threads = Some(1);
    let missing = missing_tool();
    let trials = TESTS.map(|(name, test)| trial(name, missing, test));
    libtest_mimic::run(&arguments, trials.into()).exit();
}

/// The interpreter of an environment with both clients installed.
fn python() -> Result<PathBuf> {
    environment("open-inference", "open_inference.txt")
}

/// Starts a daemon without a broker. It is ready as long as `kafka.patience` lasts.
fn serve(bundle: &Path, folder: &Path) -> Result<Daemon> {
    let settings = Settings::new(CLOSED_PORT, "mails", bundle, &folder.join("state"));
    let daemon = Daemon::start(PROGRAM, &settings.with("kafka.patience", "1h"))?;
    daemon.is_ready()?;
    Ok(daemon)
}

fn triton_client() -> Result<()> {
    let told = ask("triton_client.py", 4)?;
    for (way, unfit, missing) in [
        (
            "grpc",
            "StatusCode.INVALID_ARGUMENT: ",
            "StatusCode.NOT_FOUND: ",
        ),
        ("http", "400: ", "404: "),
    ] {
        let told = &told[way];
        ensure!(told["server"]["name"] == "ostard", "{told}");
        check_metadata(&told["model"])?;
        for (mistake, status, text) in [
            (
                "wrong shape",
                unfit,
                "input \"features\": shape is [5, 7], expected [rows, 8]",
            ),
            (
                "wrong type",
                unfit,
                "input \"features\": datatype is INT32, expected FP32 or FP64",
            ),
            (
                "text",
                unfit,
                "input \"features\": datatype is BYTES, expected FP32 or FP64",
            ),
            (
                "unknown model",
                missing,
                "model \"nobody\" is not served, expected \"model\"",
            ),
            (
                "unknown version",
                missing,
                "version \"0.999\" is not served, expected \"1.0\" or none",
            ),
            (
                "empty batch",
                unfit,
                "rows: is empty, expected at least one",
            ),
            (
                "overflow",
                unfit,
                "input \"features\": shape [4611686018427387904, 8] has more elements",
            ),
            (
                "negative",
                unfit,
                "input \"features\": shape [-1, 8] has the size -1, expected 0 or more",
            ),
        ] {
            let found = told["mistakes"][mistake].as_str().unwrap_or_default();
            let expected = format!("{status}{text}");
            ensure!(found.starts_with(&expected), "{way}, {mistake}: {found}");
        }
    }
    Ok(())
}

fn kserve_client() -> Result<()> {
    let told = ask("kserve_client.py", 4)?;
    check_metadata(&told["model"])?;
    for (way, text) in [
        (
            "grpc",
            "StatusCode.NOT_FOUND: model \"nobody\" is not served, expected \"model\"",
        ),
        (
            "rest",
            "input \"features\": shape is [5, 7], expected [rows, 8], '400 Bad Request'",
        ),
    ] {
        let found = told["mistakes"][way].as_str().unwrap_or_default();
        ensure!(found.starts_with(text), "{way}: {found}");
    }
    Ok(())
}

/// Runs a client script and returns what it printed. Checks that the predictions it got over each of `ways` interfaces
/// are those of `ostar.v1`.
fn ask(name: &str, ways: usize) -> Result<Value> {
    let python = python()?;
    let folder = tempfile::tempdir()?;
    let bundle = folder.path().join("bundle");
    gaussians::write_bundle(&bundle)?;
    let daemon = serve(&bundle, folder.path())?;
    let (grpc, http) = (
        daemon.address("grpc_address")?,
        daemon.address("http_address")?,
    );
    let (rows, _) = gaussians::draw(5, 0.5, 0.3, 9);
    let mut command = Command::new(python);
    command
        .arg(script(name))
        .args(["--grpc", &grpc, "--http", &http]);
    command.args(["--rows", &serde_json::to_string(&rows)?]);
    let told: Value =
        serde_json::from_str(&output(&mut command)?).context("the script's output")?;
    let predictions = told["predictions"].as_object().context("predictions")?;
    ensure!(predictions.len() == ways, "{predictions:?}");
    let native = predict(&grpc, &rows)?;
    for (way, found) in predictions {
        let found: Vec<Vec<f64>> = serde_json::from_value(found.clone())?;
        let differs = |(one, other): (&f64, &f64)| (one - other).abs() > 1e-6;
        let pairs = native.iter().flatten().zip(found.iter().flatten());
        ensure!(found.len() == native.len(), "{way}: {} rows", found.len());
        ensure!(
            !pairs.into_iter().any(differs),
            "{way}: {found:?} instead of {native:?}"
        );
    }
    ensure!(daemon.get("/livez")?.0 == 200);
    daemon.stop_cleanly()?;
    Ok(told)
}

fn check_metadata(model: &Value) -> Result<()> {
    ensure!(model["name"] == "model", "{model}");
    let input = &model["inputs"][0];
    ensure!(
        input["name"] == "features" && input["datatype"] == "FP32",
        "{model}"
    );
    // Protobuf's JSON writes 64-bit integers as strings.
    let shape = input["shape"].to_string().replace('"', "");
    ensure!(shape == "[-1,8]", "{model}");
    ensure!(model["outputs"][0]["name"] == "probabilities", "{model}");
    Ok(())
}

/// Probabilities by `ostard predict`, which speaks `ostar.v1`.
fn predict(address: &str, rows: &[Vec<f32>]) -> Result<Vec<Vec<f64>>> {
    let mut command = Command::new(PROGRAM);
    command.args(["predict", "--address", address, "--format", "json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.spawn().context("ostard")?;
    let mut input = client.stdin.take().context("no standard input")?;
    for row in rows {
        input.write_all(&gaussians::json("row", row))?;
        input.write_all(b"\n")?;
    }
    drop(input);
    let answered = client.wait_with_output()?;
    ensure!(answered.status.success(), "{answered:?}");
    let lines = String::from_utf8(answered.stdout)?;
    let line = |line: &str| {
        let answer: Value = serde_json::from_str(line)?;
        Ok(serde_json::from_value(answer["probabilities"].clone())?)
    };
    lines.lines().map(line).collect()
}
