//! Mistakes that only a start of the daemon finds: the error names the key, the value and the fix. The daemon's unit
//! tests cover those that the configuration alone shows.

use std::{fs, net::TcpListener, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings},
    gaussians,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_ostard-under-test");
/// An address that refuses connections: nothing listens on the port of tcpmux.
const CLOSED_PORT: &str = "127.0.0.1:1";

/// Runs the daemon until it ends by itself; returns the exit code and the standard error.
fn run(bundle: &Path, state: &Path, more: &[&str]) -> Result<(Option<i32>, String)> {
    let ended = Command::new(PROGRAM)
        .args(["run", "--brokers", CLOSED_PORT, "--topic", "mails"])
        .arg("--bundle")
        .arg(bundle)
        .arg("--checkpoints")
        .arg(state)
        .args(more)
        .output()
        .context("ostard")?;
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    Ok((ended.status.code(), text))
}

#[test]
fn an_unreachable_broker_is_named_with_its_key_and_waited_for() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bundle = folder.path().join("bundle");
    gaussians::write_bundle(&bundle)?;
    let settings = Settings::new(CLOSED_PORT, "mails", &bundle, &folder.path().join("state"));
    let daemon = Daemon::start(PROGRAM, &settings.with("kafka.patience", "1ms"))?;
    let entry = daemon.logged("cannot reach the topic yet, trying again")?;
    let error = entry["error"].as_str().context("no error")?;
    ensure!(
        error.starts_with("kafka.brokers \"127.0.0.1:1\" cannot be reached"),
        "{error}"
    );
    ensure!(error.contains("is a broker running"), "{error}");
    ensure!(daemon.get("/livez")?.0 == 200);
    let (status, reason) = daemon.get("/readyz")?;
    // The bundle's model answers requests meanwhile, so the Service keeps the pod.
    ensure!(
        status == 200 && reason.contains("kafka.brokers"),
        "{status}: {reason}"
    );
    daemon.stop_cleanly()
}

#[test]
fn a_port_in_use_is_named_with_its_key() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bundle = folder.path().join("bundle");
    gaussians::write_bundle(&bundle)?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?;
    let listen = format!("http.listen={address}");
    let more = ["--set", &listen, "--set", "grpc.listen=127.0.0.1:0"];
    let (code, text) = run(&bundle, &folder.path().join("state"), &more)?;
    ensure!(code == Some(1), "{code:?}: {text}");
    let expected = format!(
        "error: http.listen: cannot listen on {address}; stop the program that listens there, or set http.listen to a \
         free address"
    );
    ensure!(text.contains(&expected), "{text}");
    Ok(())
}

#[test]
fn a_bundle_whose_widths_do_not_agree_is_named_with_the_field() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bundle = folder.path().join("bundle");
    gaussians::write_bundle(&bundle)?;
    let description = bundle.join("bundle.json");
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&description)?)?;
    json["input"]["latent"]["width"] = 9.into();
    fs::write(&description, serde_json::to_vec(&json)?)?;
    let (code, text) = run(&bundle, &folder.path().join("state"), &[])?;
    ensure!(code == Some(1), "{code:?}: {text}");
    let path = bundle.display().to_string();
    ensure!(
        text.contains("bundle.path")
            && text.contains(&path)
            && text.contains("input.width: expected 8, found 9"),
        "{text}"
    );
    Ok(())
}

#[test]
fn exit_codes_are_those_of_the_documentation() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let code = |line: &[&str]| -> Result<(Option<i32>, String)> {
        let ended = Command::new(PROGRAM)
            .args(line)
            .current_dir(folder.path())
            .env_remove("OSTAR_CONFIG")
            .output()?;
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        Ok((ended.status.code(), text))
    };
    let expect = |line: &[&str], expected: i32| -> Result<()> {
        let (found, text) = code(line)?;
        ensure!(found == Some(expected), "{line:?}: {found:?}: {text}");
        ensure!((expected == 0) == text.is_empty(), "{line:?}: {text}");
        Ok(())
    };
    expect(&["--version"], 0)?;
    expect(&["fit", "--data", "nowhere.csv", "--out", "bundle"], 1)?;
    expect(&["fit"], 2)?;
    expect(&["config", "check"], 2)?;
    expect(&["state", "--address", "no address"], 2)?;
    expect(&["state", "--token-file", "nowhere"], 2)?;
    expect(&["state", "--address", CLOSED_PORT], 3)?;
    expect(&["ctl", "--address", CLOSED_PORT, "pause"], 3)?;
    Ok(())
}

#[test]
fn an_export_of_the_demo_tells_what_it_wrote_where() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let output = Command::new(PROGRAM)
        .args(["demo", "--export", "mails", "--seconds", "1"])
        .current_dir(folder.path())
        .output()?;
    ensure!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let text = String::from_utf8(output.stdout)?;
    ensure!(
        text == "wrote mails/bundle: a model that tells ham from spam\nwrote mails/stream.jsonl: 500 labelled mails\n\
                 next: ostard backtest --bundle mails/bundle --data mails/stream.jsonl\n",
        "{text}"
    );
    let lines = fs::read_to_string(folder.path().join("mails/stream.jsonl"))?;
    ensure!(lines.lines().count() == 500);
    ensure!(folder.path().join("mails/bundle/bundle.json").is_file());
    Ok(())
}

#[test]
fn mistakes_in_the_configuration_are_all_told_at_once_with_exit_code_two() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let nowhere = folder.path().join("nowhere");
    let more = ["--set", "learner.blok=3", "--set", "learner.nice=abc"];
    let (code, text) = run(&nowhere, &folder.path().join("state"), &more)?;
    ensure!(code == Some(2), "{code:?}: {text}");
    for expected in [
        "learner.blok is not a key, did you mean learner.block?",
        "learner.nice is \"abc\", expected a whole number from 0 to 19",
        "expected a folder with a bundle.json",
    ] {
        ensure!(text.contains(expected), "{text}");
    }
    Ok(())
}
