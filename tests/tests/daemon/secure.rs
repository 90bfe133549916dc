//! The whole pipeline over SASL_SSL with SCRAM.

use anyhow::{Result, ensure};
use ostar_tests::{
    gaussians,
    kafka::{Kafka, Listener},
};

use ostar_harness::Place;

use crate::{Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "over_sasl_ssl_events_are_learned_from_predicted_and_their_password_is_nowhere",
    over_sasl_ssl,
)];

const EVENTS: usize = 500;
const PASSWORD: &str = "correct-horse";

fn over_sasl_ssl(_plaintext: &Kafka) -> Result<()> {
    let kafka = Kafka::start(Listener::SaslSsl {
        user: "ostard".to_owned(),
        password: PASSWORD.to_owned(),
    })?;
    for topic in ["secured", "secured-predictions"] {
        kafka.create_topic(topic, 1, &[])?;
    }
    let (rows, _) = gaussians::draw(EVENTS, 0.6, 0.3, 23);
    kafka.produce("secured", 0, rows.iter().map(|row| gaussians::raw(row)))?;

    let place = Place::new()?;
    let password = place.checkpoints("password");
    std::fs::write(&password, format!("{PASSWORD}\n"))?;
    let mut settings = place
        .settings(&kafka, "secured", "state")
        .with("kafka.brokers", &kafka.bootstrap())
        .with("predictions.topic", "secured-predictions")
        .with(
            "kafka.options_from_files.sasl.password",
            &password.display().to_string(),
        );
    for (option, value) in kafka.client_options() {
        settings = settings.with(&format!("kafka.options.{option}"), &value);
    }
    let daemon = start(&settings)?;
    daemon.metric_is("ostar_learned_events_total", EVENTS as f64)?;
    let told = format!("{:?}", daemon.log());
    ensure!(!told.contains(PASSWORD), "the log shows the password");
    daemon.stop_cleanly()?;
    let predictions = kafka.values("secured-predictions")?.len();
    ensure!(
        predictions == EVENTS,
        "{predictions} predictions of {EVENTS} events"
    );
    Ok(())
}
