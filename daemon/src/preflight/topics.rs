//! Topics: are they there, and may the daemon read or write them?

use ostar_connectors::kafka::{KafkaError, Permissions, Survey, TopicFacts};

use super::{Findings, count};
use crate::config::Config;

/// What the daemon does with a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

/// Bytes of a record's headers and framing, with room to spare.
const OVERHEAD: u64 = 1_000;

pub(super) fn check(config: &Config, survey: &Survey, findings: &mut Findings) {
    let topics = [
        ("kafka.topic", Some(&config.kafka.topic), Use::Read),
        ("labels.topic", config.labels.topic.as_ref(), Use::Read),
        (
            "predictions.topic",
            config.predictions.topic.as_ref(),
            Use::Write,
        ),
        (
            "dead_letters.topic",
            config.dead_letters.topic.as_ref(),
            Use::Write,
        ),
        ("parked.topic", config.parked.topic.as_ref(), Use::Write),
    ];
    for (key, topic, role) in topics {
        let Some(topic) = topic else {
            continue;
        };
        match survey.topic(topic) {
            Ok(facts) => {
                let letters = config.dead_letters.max_bytes as u64;
                let largest = (key == "dead_letters.topic").then_some(2 * letters + OVERHEAD);
                check_topic(key, topic, role, largest, &facts, findings);
            }
            Err(error) => missing(key, topic, role, &error, survey, findings),
        }
    }
}

fn check_topic(
    key: &'static str,
    topic: &str,
    role: Use,
    largest: Option<u64>,
    facts: &TopicFacts,
    findings: &mut Findings,
) {
    if let Some(missing) = facts.permissions.and_then(|may| role.lacks(may)) {
        return findings.problem(
            key,
            format!("{topic:?} is there, but this client may not {missing} it: add an ACL, or use another user"),
        );
    }
    if role == Use::Write {
        let setting = |name: &str| facts.configuration.as_ref()?.get(name)?.parse::<u64>().ok();
        if let Some(least) = setting("min.insync.replicas")
            && least > facts.in_sync as u64
        {
            return findings.problem(
                key,
                format!(
                    "{topic:?} wants {least} replicas in sync (min.insync.replicas) and has {}: outputs would wait",
                    facts.in_sync
                ),
            );
        }
        if let (Some(most), Some(largest)) = (setting("max.message.bytes"), largest)
            && most < largest
        {
            findings.warning(
                key,
                format!(
                    "{topic:?} takes at most {most} bytes (max.message.bytes), a dead letter may have {largest}: larger \
                     ones would be parked; lower dead_letters.max_bytes"
                ),
            );
        }
        let policy = facts.configuration.as_ref();
        let policy = policy.and_then(|settings| settings.get("cleanup.policy"));
        if policy.is_some_and(|policy| policy.contains("compact")) {
            findings.warning(
                key,
                format!("{topic:?} is compacted: it refuses records without a key, which would be parked"),
            );
        }
    }
    let told = match facts.permissions {
        Some(_) => format!("may be {}", role.done()),
        None => "the broker does not say who may use it".to_owned(),
    };
    let partitions = count(facts.partitions, "partition");
    findings.good(key, format!("{topic:?} has {partitions}, {told}"));
}

fn missing(
    key: &'static str,
    topic: &str,
    role: Use,
    error: &KafkaError,
    survey: &Survey,
    findings: &mut Findings,
) {
    let is_missing = matches!(error, KafkaError::NoTopic { .. });
    if is_missing && role == Use::Write && survey.creates_topics() == Some(true) {
        let text = format!("{topic:?} does not exist; the broker creates it with the first record");
        return findings.warning(key, text);
    }
    findings.problem(key, error.to_string());
}

// === impl Use ===

impl Use {
    /// What is not allowed although it is needed.
    fn lacks(self, may: Permissions) -> Option<&'static str> {
        match self {
            Self::Read => (!may.read).then_some("read"),
            Self::Write => (!may.write).then_some("write"),
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "written",
        }
    }
}
