//! TLS and SCRAM, with the password read from a file.

use std::time::Duration;

use anyhow::{bail, ensure};
use ostar_connectors::kafka::{Connection, KafkaError, KafkaSettings};
use ostar_tests::kafka::{Kafka, Listener};

use crate::{check_partition, open, read, settings, values};

/// Starts its own broker, because the shared one is plaintext.
type SecureTest = fn() -> anyhow::Result<()>;

pub(crate) const TESTS: &[(&str, SecureTest)] = &[(
    "sasl_ssl_reads_with_the_right_password_and_says_so_with_a_wrong_one",
    sasl_ssl_reads_with_the_right_password_and_says_so_with_a_wrong_one,
)];

fn sasl_ssl_reads_with_the_right_password_and_says_so_with_a_wrong_one() -> anyhow::Result<()> {
    let kafka = Kafka::start(Listener::SaslSsl {
        user: "ostard".to_owned(),
        password: "correct-horse".to_owned(),
    })?;
    kafka.create_topic("secret", 1, &[])?;
    kafka.produce("secret", 0, values(0, 0..10))?;

    let folder = tempfile::tempdir()?;
    let password = folder.path().join("password");
    let mut settings = settings(&kafka, "secret");
    for (option, value) in kafka.client_options() {
        settings.options.0.insert(option.to_owned(), value);
    }
    let option = ("sasl.password".to_owned(), password.clone());
    settings.options_from_files.extend([option]);

    std::fs::write(&password, "correct-horse\n")?;
    check_partition(&read(&mut open(&settings, &[])?, 10)?, 0, 0..10)?;

    std::fs::write(&password, "battery-staple\n")?;
    check_refused(&settings)
}

fn check_refused(settings: &KafkaSettings) -> anyhow::Result<()> {
    match Connection::open(settings, Duration::from_secs(5)) {
        Ok(_) => bail!("a wrong password was taken"),
        Err(error) => {
            let unreachable = matches!(error, KafkaError::Unreachable { .. });
            let text = error.to_string();
            ensure!(unreachable && text.contains("uthentication"), "{text}");
            ensure!(!text.contains("battery-staple"), "{text}");
            Ok(())
        }
    }
}
