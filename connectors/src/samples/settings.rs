//! Section `samples` of the configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{Problem, check_topic};

/// Section `samples`: what scorers pass on to the learner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SampleSettings {
    /// Topic of the samples. With one partition a replay learns the same bytes. Required for the roles scorer and learner.
    pub topic: Option<String>,
    /// The learner gets about this many samples a second, and all events while there are fewer. Beyond it, a uniform share
    /// of them.
    #[schemars(range(min = 1))]
    pub per_second: u32,
}

impl Default for SampleSettings {
    fn default() -> Self {
        Self {
            topic: None,
            per_second: 5_000,
        }
    }
}

impl SampleSettings {
    /// Reports everything that is wrong with the section.
    pub fn validate(&self, problems: &mut Vec<Problem>) {
        check_topic("samples.topic", self.topic.as_deref(), problems);
    }
}
