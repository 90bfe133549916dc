//! What a process does among others, and what each role needs.

use ostar_connectors::settings::{Problem, check_periods};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::named::named;

named! {
    /// What a process does. docs/SCALE_OUT.md says when to run several.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Role {
        /// Reads, scores, serves and learns, alone.
        #[default]
        All = "all",
        /// Reads the partitions that its group assigns to it, scores and serves. Passes samples on to the learner and follows
        /// what it learns. Any number of them.
        Scorer = "scorer",
        /// Learns from samples and serves. One learns, others stand by.
        Learner = "learner",
    }
}

/// Where what is learned is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckpointKind {
    /// In `checkpoints.folder`.
    Folder,
    /// In `checkpoints.topic`, which is compacted.
    Kafka,
}

impl Config {
    /// Whether what is learned is kept in a folder.
    pub(crate) fn keeps_folder(&self) -> bool {
        self.role == Role::All && self.checkpoints.store == CheckpointKind::Folder
    }

    /// The topic that the learner reads: events, or samples of them.
    pub(crate) fn learned_topic(&self) -> &str {
        match self.role {
            Role::Learner => self.samples.topic.as_deref().unwrap_or_default(),
            Role::All | Role::Scorer => &self.kafka.topic,
        }
    }

    /// Where what is learned is kept, for people.
    pub(crate) fn state_place(&self) -> String {
        match (&self.checkpoints.folder, &self.checkpoints.topic) {
            (Some(folder), _) if self.keeps_folder() => format!("folder {}", folder.display()),
            (_, topic) => format!("topic {}", topic.as_deref().unwrap_or_default()),
        }
    }

    /// What the role needs.
    pub(super) fn check_role(&self, problems: &mut Vec<Problem>) {
        self.samples.validate(problems);
        let is_split = self.role != Role::All;
        if is_split && self.samples.topic.is_none() {
            let hint = format!(
                "expected the topic between scorers and the learner, because role is {:?}",
                self.role.name()
            );
            problems.push(Problem::unset("samples.topic", hint));
        }
        if self.role == Role::Learner && self.checkpoints.store == CheckpointKind::Folder {
            let hint = "expected \"kafka\", because role is \"learner\": scorers follow the topic";
            problems.push(Problem::value(
                "checkpoints.store",
                self.checkpoints.store,
                hint,
            ));
        }
        if !self.keeps_folder() && self.checkpoints.topic.is_none() {
            let hint = "expected the topic of the state: `ostard topics apply` makes it";
            problems.push(Problem::unset("checkpoints.topic", hint));
        }
        let has_outputs = self.predictions.topic.is_some() || self.dead_letters.topic.is_some();
        let emits = self.role == Role::Scorer || (self.role == Role::All && has_outputs);
        let parks = self.parked.topic.is_some() || self.parked.file.is_some();
        if emits && !parks && !self.keeps_folder() && self.checkpoints.folder.is_none() {
            let hint = "expected a topic for outputs that are refused for good: there is no checkpoints.folder for \
                        them";
            problems.push(Problem::unset("parked.topic", hint));
        }
        let periods = [
            ("snapshot_interval", self.checkpoints.snapshot_interval),
            ("heartbeat", self.checkpoints.heartbeat),
            ("session_timeout", self.checkpoints.session_timeout),
        ];
        check_periods("checkpoints", periods, problems);
    }
}
