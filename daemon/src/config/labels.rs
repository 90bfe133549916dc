//! How the learner uses labels, from several sections.

use anyhow::{Result, bail};
use ostar_method::{
    Candidate,
    gate::Objective,
    learner::{LabelUse, Negatives},
};

use super::Config;

impl Config {
    /// `None` if no labels are read. `classes` are the bundle's.
    pub(crate) fn label_use(&self, classes: &[String]) -> Result<Option<LabelUse>> {
        let labels = &self.labels;
        if labels.topic.is_none() {
            return Ok(None);
        }
        let class = match &labels.negative_class {
            None => 0,
            Some(name) => match classes.iter().position(|class| class == name) {
                Some(class) => class as u32,
                None => bail!(
                    "labels.negative_class is {name:?}, expected one of the bundle's classes: {}",
                    classes.join(", ")
                ),
            },
        };
        let negatives = labels.negative_after.map(|after| Negatives {
            after_ms: after.get().as_millis() as i64,
            class,
        });
        // Kept of every event if candidates are compared by them, else of those that were drawn at random.
        let kept = Candidate::ALL.len() * classes.len();
        let kept = match self.serving.objective {
            Objective::Probability => kept,
            Objective::Class => {
                let block = self.learner.block.max(1);
                (kept * labels.requests.random_per_block.min(block)).div_ceil(block)
            }
        };
        Ok(Some(LabelUse {
            capacity: labels.most_predictions(kept),
            objective: self.serving.objective,
            disagreements: labels.requests.per_block,
            random: labels.requests.random_per_block,
            negatives,
            seed: self.learner.method.seed,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_negative_class_is_named_with_those_there_are() {
        let mut config = Config::default();
        let classes = ["no".to_owned(), "click".to_owned()];
        assert_eq!(config.label_use(&classes).unwrap(), None);
        config.labels.topic = Some("labels".to_owned());
        config.labels.negative_after = Some("30m".parse().unwrap());
        let negatives = config
            .label_use(&classes)
            .unwrap()
            .unwrap()
            .negatives
            .unwrap();
        assert_eq!((negatives.after_ms, negatives.class), (1_800_000, 0));
        config.labels.negative_class = Some("yes".to_owned());
        let error = config.label_use(&classes).unwrap_err().to_string();
        assert!(
            error.contains("\"yes\"") && error.contains("no, click"),
            "{error}"
        );
    }

    #[test]
    fn with_many_classes_fewer_events_wait_if_their_probabilities_are_kept() {
        let mut config = Config::default();
        config.labels.topic = Some("labels".to_owned());
        let classes: Vec<String> = (0..1_000).map(|class| class.to_string()).collect();
        let capacity = |config: &Config| config.label_use(&classes).unwrap().unwrap().capacity;
        assert_eq!(capacity(&config), 100_000);
        config.serving.objective = Objective::Probability;
        // 256 MiB of 12,200 bytes each.
        assert_eq!(capacity(&config), 22_002);
        config.serving.objective = Objective::Class;
        config.labels.requests.random_per_block = 100;
        assert_eq!(capacity(&config), 100_000);
        config.labels.requests.random_per_block = 500;
        assert_eq!(capacity(&config), 22_002);
    }
}
