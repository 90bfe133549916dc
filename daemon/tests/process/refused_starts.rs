//! What the program refuses or warns of before it serves, as a person at a terminal sees it.

use std::{
    fs,
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use ostar_harness::daemon::Settings;

use crate::{Daemon, PROGRAM, Place, broker};

/// Exit code, standard output and standard error of a command.
fn ostard(words: &[&str], settings: &Settings) -> Result<(i32, String, String)> {
    let mut command = Command::new(PROGRAM);
    command.args(words).args(settings.flags(""));
    let ended = command.stdin(Stdio::null()).output()?;
    Ok((
        ended.status.code().context("no exit code")?,
        String::from_utf8(ended.stdout)?,
        String::from_utf8(ended.stderr)?,
    ))
}

#[test]
fn an_open_listener_is_a_warning_of_the_check_and_of_the_start() -> Result<()> {
    let mock = broker(&["open"]);
    let place = Place::new()?;
    let settings = place.settings(&mock, "open", "state");
    let (code, out, err) = ostard(&["config", "check"], &settings)?;
    ensure!(
        (code, &out[..], &err[..]) == (0, "the configuration is valid\n", ""),
        "{code} {out} {err}"
    );
    let open = settings
        .with("grpc.listen", "0.0.0.0:0")
        .with("http.listen", "[::ffff:127.0.0.1]:0");
    let (code, out, err) = ostard(&["config", "check"], &open)?;
    ensure!(
        (code, &out[..]) == (0, "the configuration is valid\n"),
        "{code} {out}"
    );
    ensure!(
        err.starts_with("warning: grpc.listen 0.0.0.0:0 is open: "),
        "{err}"
    );
    ensure!(err.lines().count() == 1, "{err}");
    let (code, out, _) = ostard(&["config", "check", "--connect"], &open)?;
    let warned = out
        .lines()
        .filter(|line| line.starts_with("warning  grpc.listen"));
    ensure!(code == 0 && warned.count() == 1, "{code} {out}");

    let daemon = Daemon::start(PROGRAM, &open)?;
    let warning = daemon.logged("a listener is open to whoever reaches it")?;
    ensure!(
        warning["level"] == "WARN" && warning["key"] == "grpc.listen",
        "{warning}"
    );
    daemon.metric_is("ostar_condition{condition=\"listeners\"}", 1.0)?;
    daemon.stop_cleanly()
}

#[test]
fn a_file_of_a_bundle_without_an_end_is_refused_at_once() -> Result<()> {
    let place = Place::new()?;
    let settings = Settings::new(
        "127.0.0.1:1",
        "endless",
        &place.path().join("bundle"),
        &place.checkpoints("state"),
    );
    let weights = place.path().join("bundle/weights.safetensors");
    let refused = |problem: &str| -> Result<()> {
        let (code, _, err) = ostard(&["run"], &settings)?;
        ensure!(code == 1, "{code}: {err}");
        ensure!(
            err.contains("bundle/weights.safetensors") && err.contains(problem),
            "{err}"
        );
        Ok(())
    };
    fs::remove_file(&weights)?;
    symlink("/dev/zero", &weights)?;
    refused("is no regular file")?;
    // A pipe that nobody writes to.
    fs::remove_file(&weights)?;
    let made = Command::new("mkfifo").arg(&weights).status()?;
    ensure!(made.success(), "mkfifo: {made}");
    refused("is no regular file")?;
    fs::remove_file(&weights)?;
    fs::File::create(&weights)?.set_len(1 << 42)?;
    refused("has 4398046511104 bytes, expected at most 2147483648")
}
