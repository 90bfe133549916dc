//! Topics: are they there, and may the daemon read or write them?

use ostar_connectors::kafka::{
    KafkaError, Permissions, Survey, TopicFacts, TopicOutcome, TopicPlan,
};

use super::{Findings, count};
use crate::config::{Config, Role};

/// What the daemon does with a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

/// Bytes of a record's headers and framing, with room to spare.
const OVERHEAD: u64 = 1_000;

pub(super) fn check(config: &Config, survey: &Survey, findings: &mut Findings) {
    let (scores, learns) = (config.role != Role::Learner, config.role != Role::Scorer);
    let outputs = [
        ("predictions.topic", config.predictions.topic.as_ref()),
        ("dead_letters.topic", config.dead_letters.topic.as_ref()),
        ("parked.topic", config.parked.topic.as_ref()),
    ];
    let outputs = outputs.map(|(key, topic)| (key, topic, Use::Write, scores));
    let labels = config.labels.topic.as_ref();
    let topics = [
        ("kafka.topic", Some(&config.kafka.topic), Use::Read, scores),
        ("labels.topic", labels, Use::Read, learns),
    ];
    for (key, topic, role, is_used) in topics.into_iter().chain(outputs) {
        let Some(topic) = topic.filter(|_| is_used) else {
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

/// Topics between scorers and the learner, and the settings that ostard relies on.
pub(super) fn check_own(config: &Config, survey: &Survey, findings: &mut Findings) {
    let writes = |is_writer: bool| if is_writer { Use::Write } else { Use::Read };
    let samples = config.samples.topic.as_deref().map(TopicPlan::samples);
    let samples = samples.filter(|_| config.role != Role::All);
    let state = config.checkpoints.topic.as_deref().map(TopicPlan::state);
    let state = state.filter(|_| !config.keeps_folder());
    let is_scorer = config.role == Role::Scorer;
    let plans = [(samples, writes(is_scorer)), (state, writes(!is_scorer))];
    for (plan, role) in plans {
        let Some(plan) = plan else {
            continue;
        };
        let lacks = |facts: &TopicFacts| facts.permissions.and_then(|may| role.lacks(may));
        let facts = survey.topic(&plan.name);
        let outcome = plan.compare(survey);
        match (facts, outcome) {
            (Ok(facts), _) if lacks(&facts).is_some() => {
                let missing = lacks(&facts).unwrap_or_default();
                findings.problem(plan.key, forbidden(&plan.name, missing));
            }
            (_, Ok(TopicOutcome::Missing)) => findings.problem(
                plan.key,
                format!(
                    "{:?} does not exist; `ostard topics apply` makes it",
                    plan.name
                ),
            ),
            (_, Ok(TopicOutcome::Differs(differences))) => {
                let differences = differences.join(", ");
                findings.warning(plan.key, format!("{:?} differs: {differences}", plan.name));
            }
            (_, Ok(TopicOutcome::Fits | TopicOutcome::Created)) => {
                let partitions = count(plan.partitions, "partition");
                let text = format!("{:?} has {partitions} and the settings it needs", plan.name);
                findings.good(plan.key, text);
            }
            (_, Err(error)) => findings.problem(plan.key, error.to_string()),
        }
    }
}

fn forbidden(topic: &str, missing: &str) -> String {
    format!(
        "{topic:?} is there, but this client may not {missing} it: add an ACL, or use another user"
    )
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
        return findings.problem(key, forbidden(topic, missing));
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
