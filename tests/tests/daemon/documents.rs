//! Runs every shell command of the README, the quick start and the page about ONNX models.
//!
//! A block of `sh` is run, in a folder that has nothing but the checkout's examples at first. Nothing may be on the error stream: what a command has to
//! say goes to the other one, and nothing goes wrong. The log of what runs in the background has no warning but
//! alarms about the stream.
//!
//! A block of `sh` is run. A comment above it says otherwise: `<!-- background -->` starts it and stops it at the end,
//! `<!-- .ci/run: text -->` leaves it to CI, if CI has the text and the block begins with it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use ostar_tests::{free_port, kafka::Kafka, python::environment};

use crate::{PROGRAM, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("the_commands_of_the_readme_run", |kafka| {
        run("README.md", &["inbox"], kafka)
    }),
    ("the_commands_of_the_quick_start_run", |kafka| {
        let topics = ["mails", "mail-labels", "mail-predictions"];
        run("docs/QUICKSTART.md", &topics, kafka)
    }),
];

/// Documents whose commands run Python, with the packages of a requirements file.
pub(crate) const PYTHON_TESTS: &[(&str, Test)] =
    &[("the_commands_of_bring_your_model_run", |kafka| {
        let python = environment("onnx", "../../examples/models/requirements-onnx.txt")?;
        let folder = python.parent().context("a folder with programs")?;
        let topics = ["digits", "digit-predictions"];
        run_with("docs/BRING_YOUR_MODEL.md", &topics, kafka, Some(folder))
    })];

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// How a block of commands is run.
#[derive(Debug, PartialEq)]
enum Block {
    Run(String),
    Background(String),
    LeftToCi { command: String, text: String },
}

fn run(document: &str, topics: &[&str], kafka: &Kafka) -> Result<()> {
    run_with(document, topics, kafka, None)
}

/// Creates the topics that a document expects, then runs its commands in one shell, with further programs from a folder.
fn run_with(document: &str, topics: &[&str], kafka: &Kafka, programs: Option<&Path>) -> Result<()> {
    for topic in topics {
        kafka.create_topic(topic, 1, &[])?;
    }
    let text = fs::read_to_string(Path::new(ROOT).join(document)).context(document.to_owned())?;
    let continuous_integration = fs::read_to_string(Path::new(ROOT).join(".ci/run"))?;
    let mut script = BEGINNING.to_owned();
    for block in blocks(&text)? {
        match block {
            Block::Run(commands) => script.push_str(&commands),
            Block::Background(command) => {
                let command = command.trim();
                script.push_str(&format!("{command} 2>> \"$LOG\" &\n"));
            }
            Block::LeftToCi { command, text } => ensure!(
                command.starts_with(&text) && continuous_integration.contains(&text),
                "{document}: `{}` is left to .ci/run, which does not run `{text}`",
                command.trim()
            ),
        }
    }
    script.push_str(END);
    let (folder, aside) = (tempfile::tempdir()?, tempfile::tempdir()?);
    symlink(PROGRAM, aside.path().join("ostard"))?;
    let examples = Path::new(ROOT).join("examples").canonicalize()?;
    symlink(examples, folder.path().join("examples"))?;
    let (log, trace) = (aside.path().join("log"), aside.path().join("trace"));
    let output = Command::new("timeout")
        .args(["--kill-after=5", "300", "bash", "-c"])
        .arg(with_own_ports(&script, kafka))
        .current_dir(folder.path())
        .env("PATH", path_with(aside.path(), programs))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LOG", &log)
        .env("TRACE", &trace)
        .stdin(Stdio::null())
        .output()
        .context("bash")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let (log, trace) = (
        fs::read_to_string(log).unwrap_or_default(),
        fs::read_to_string(trace).unwrap_or_default(),
    );
    let all = format!("{document}: {said}\n{errors}\n{trace}\n{log}");
    ensure!(output.status.success(), "{all}");
    ensure!(errors.is_empty(), "on the error stream: {errors:?}\n{all}");
    for line in log.lines() {
        // The mails change on the way, and the daemon says so.
        let alarms = ["raised an alarm", "a field of the input broke"];
        let is_alarm = alarms.iter().any(|alarm| line.contains(alarm));
        ensure!(
            line.contains(" INFO ") || is_alarm,
            "in the log: {line:?}\n{all}"
        );
    }
    Ok(())
}

/// The trace of commands goes to a file: the error stream is looked at.
const BEGINNING: &str = "exec 9> \"$TRACE\"\nBASH_XTRACEFD=9\nPS4='+ $SECONDS s: '\nset -euxo pipefail\ntrap 'jobs -p | xargs --no-run-if-empty kill -9' EXIT\n";
/// Stops what runs in the background; the shell fails if one of them does.
const END: &str = "for process in $(jobs -p); do kill $process; wait $process; done\n";

/// Replaces the default addresses by the test's broker and free ports.
fn with_own_ports(script: &str, kafka: &Kafka) -> String {
    let mut script = script.replace("localhost:9092", &kafka.bootstrap());
    for port in ["50051", "8080"] {
        let address = format!("127.0.0.1:{}", free_port());
        for host in ["localhost", "127.0.0.1"] {
            script = script.replace(&format!("{host}:{port}"), &address);
        }
    }
    script
}

fn path_with(folder: &Path, programs: Option<&Path>) -> String {
    let others = std::env::var("PATH").unwrap_or_default();
    match programs {
        Some(programs) => format!("{}:{}:{others}", folder.display(), programs.display()),
        None => format!("{}:{others}", folder.display()),
    }
}

fn blocks(text: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    let mut above = "";
    while let Some(line) = lines.next() {
        if line != "```sh" {
            above = line;
            continue;
        }
        let inside = lines.by_ref().take_while(|line| *line != "```");
        let commands: String = inside.map(|line| format!("{line}\n")).collect();
        // It belongs to this block alone.
        let comment = std::mem::take(&mut above)
            .strip_prefix("<!-- ")
            .and_then(|comment| comment.strip_suffix(" -->"));
        blocks.push(match comment {
            None => Block::Run(commands),
            Some("background") => Block::Background(commands),
            Some(comment) => match comment.strip_prefix(".ci/run: ") {
                Some(text) => Block::LeftToCi {
                    command: commands,
                    text: text.to_owned(),
                },
                None => bail!(
                    "<!-- {comment} --> above a block, expected `background` or `.ci/run: TEXT`"
                ),
            },
        });
    }
    ensure!(!blocks.is_empty(), "no block of commands");
    Ok(blocks)
}
