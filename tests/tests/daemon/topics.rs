//! `ostard topics apply`.

use std::process::{Command, Output};

use anyhow::{Result, ensure};
use ostar_tests::kafka::Kafka;

use crate::{PROGRAM, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "topics_apply_makes_what_is_missing_and_never_changes_what_is_there",
    apply,
)];

fn topics(kafka: &Kafka, flags: &[&str]) -> Result<Output> {
    let mut command = Command::new(PROGRAM);
    command.args(["topics", "apply", "--topic", "mails", "--brokers"]);
    command.arg(kafka.bootstrap());
    command.args(["--set", "samples.topic=applied-samples"]);
    command.args(["--set", "checkpoints.topic=applied-state"]);
    Ok(command.args(flags).output()?)
}

fn text(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(error)
}

fn apply(kafka: &Kafka) -> Result<()> {
    let told = topics(kafka, &["--dry-run"])?;
    ensure!(told.status.success(), "{}", text(&told));
    ensure!(
        text(&told).matches("to create").count() == 2,
        "{}",
        text(&told)
    );
    ensure!(
        kafka.end("applied-state").is_err(),
        "a dry run makes nothing"
    );

    // As in the chart's job, which has no files of the listeners.
    let listener = [
        "tls.certificate=/none",
        "tls.key=/none",
        "auth.token_file=/none",
    ];
    let listener = listener.map(|file| ["--set", file]).concat();
    let made = topics(kafka, &listener)?;
    ensure!(made.status.success(), "{}", text(&made));
    ensure!(
        text(&made).matches("created").count() == 2,
        "{}",
        text(&made)
    );
    ensure!(
        text(&made).contains("cleanup.policy=compact"),
        "{}",
        text(&made)
    );
    ensure!(kafka.end("applied-samples")? == 0);

    let again = topics(kafka, &[])?;
    ensure!(again.status.success(), "{}", text(&again));
    ensure!(!text(&again).contains("create"), "{}", text(&again));

    // Somebody has changed it: told, and left alone.
    kafka.configure_topic("applied-state", &[("cleanup.policy", "delete")])?;
    let differs = topics(kafka, &[])?;
    let told = text(&differs);
    ensure!(differs.status.code() == Some(1), "{told}");
    ensure!(
        told.contains("cleanup.policy is delete, should be compact"),
        "{told}"
    );
    let nothing = Command::new(PROGRAM)
        .args(["topics", "apply", "--topic", "mails"])
        .output()?;
    ensure!(text(&nothing).contains("neither samples.topic nor checkpoints.topic"));
    Ok(())
}
