//! Requests over gRPC with TLS and a bearer token.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result, ensure};
use ostar_tests::{daemon::Settings, gaussians, kafka::Kafka};
use serde_json::Value;

use ostar_harness::Place;

use crate::{PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "requests_need_tls_and_the_token_where_they_are_required",
    tls_and_token,
)];

/// A flag of `ostard predict` whose value is a file.
type Flag<'a> = (&'a str, &'a Path);

/// Exit code of `ostard predict` when the daemon refuses.
const UNANSWERED: i32 = 3;

/// Files of a daemon that requires TLS and a token.
pub(crate) struct Secrets {
    /// Self-signed: also the authority that clients trust.
    pub(crate) certificate: PathBuf,
    key: PathBuf,
    pub(crate) token: PathBuf,
}

impl Secrets {
    pub(crate) fn write(folder: &Path) -> Result<Self> {
        let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let secrets = Self {
            certificate: folder.join("certificate.pem"),
            key: folder.join("key.pem"),
            token: folder.join("token"),
        };
        fs::write(&secrets.certificate, issued.cert.pem())?;
        fs::write(&secrets.key, issued.signing_key.serialize_pem())?;
        fs::write(&secrets.token, "open sesame\n")?;
        Ok(secrets)
    }

    pub(crate) fn required_by(&self, settings: Settings) -> Settings {
        settings
            .with("tls.certificate", &self.certificate.display().to_string())
            .with("tls.key", &self.key.display().to_string())
            .with("auth.token_file", &self.token.display().to_string())
    }
}

fn tls_and_token(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    let secrets = Secrets::write(place.path())?;
    kafka.create_topic("secured", 1, &[])?;
    let settings = secrets.required_by(place.settings(kafka, "secured", "state"));
    let daemon = start(&settings)?;
    let address = daemon.address("grpc_address")?;
    let wrong = place.path().join("wrong");
    fs::write(&wrong, "open barley\n")?;
    let certificate = secrets.certificate.as_path();

    let (tls, token) = (
        ("--ca", certificate),
        ("--token-file", secrets.token.as_path()),
    );
    let answered = predict(&address, &[tls, token])?;
    let errors = String::from_utf8_lossy(&answered.stderr);
    ensure!(answered.status.success(), "{errors}");
    let answer: Value = serde_json::from_slice(&answered.stdout)?;
    ensure!(
        answer["id"] == "one" && answer["class_name"] == "spam",
        "{answer}"
    );
    let refusals: [(&str, &[Flag<'_>], &str); 3] = [
        ("no token", &[tls], "Unauthenticated"),
        (
            "another token",
            &[tls, ("--token-file", &wrong)],
            "Unauthenticated",
        ),
        ("no TLS", &[token], "the connection broke"),
    ];
    for (what, flags, expected) in refusals {
        let refused = predict(&address, flags)?;
        let errors = String::from_utf8_lossy(&refused.stderr);
        ensure!(
            refused.status.code() == Some(UNANSWERED) && errors.contains(expected),
            "{what}: {} and {errors}",
            refused.status
        );
        ensure!(refused.stdout.is_empty(), "{what} was answered");
    }
    daemon.stop_cleanly()
}

/// Runs `ostard predict` for one event.
fn predict(address: &str, flags: &[Flag<'_>]) -> Result<Output> {
    let mut command = Command::new(PROGRAM);
    command.args(["predict", "--address", address]);
    for (flag, path) in flags {
        command.arg(flag).arg(path);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut client = command.stderr(Stdio::piped()).spawn().context("ostard")?;
    let (rows, _) = gaussians::draw(1, 1.0, 0.0, 5);
    let mut input = client.stdin.take().context("no standard input")?;
    // A client that is refused early ends without reading its input.
    let _ = input.write_all(&gaussians::json("one", &rows[0]));
    drop(input);
    Ok(client.wait_with_output()?)
}
