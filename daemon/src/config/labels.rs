//! How the learner uses labels, from several sections.

use anyhow::{Result, bail};
use ostar_method::{
    Candidate,
    learner::{LabelUse, LearnerSettings, Negatives},
};
use tracing::warn;

use super::Config;

impl Config {
    /// Settings of a learner that reads no labels.
    pub(crate) fn unlabelled_learner(&self) -> LearnerSettings {
        LearnerSettings {
            objective: self.serving.objective,
            ..self.learner.method.clone()
        }
    }

    /// Settings of the learner, which reads labels if there is a topic of them. `classes` are the bundle's.
    pub(crate) fn learner_settings(&self, classes: &[String]) -> Result<LearnerSettings> {
        let labels = self.labels.topic.as_ref();
        let labels = labels.map(|_| self.label_use(classes)).transpose()?;
        Ok(LearnerSettings {
            labels,
            ..self.unlabelled_learner()
        })
    }

    /// How labels are used, wherever they come from.
    pub(crate) fn label_use(&self, classes: &[String]) -> Result<LabelUse> {
        let labels = &self.labels;
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
        let probabilities = Candidate::ALL.len() * classes.len();
        let capacity = labels.most_predictions(probabilities);
        if capacity < labels.cache {
            warn!(
                classes = classes.len(),
                predictions = capacity,
                cache = labels.cache,
                "labels.cache_bytes has room for fewer predictions than labels.cache"
            );
        }
        Ok(LabelUse {
            capacity,
            window: labels.most_in_window(probabilities),
            disagreements: labels.requests.per_block,
            random: labels.requests.random_per_block,
            negatives,
            requested: labels.requests.topic.is_some(),
            seed: self.learner.method.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_negative_class_is_named_with_those_there_are() {
        let mut config = Config::default();
        let classes = ["no".to_owned(), "click".to_owned()];
        assert_eq!(config.learner_settings(&classes).unwrap().labels, None);
        config.labels.topic = Some("labels".to_owned());
        assert!(config.learner_settings(&classes).unwrap().labels.is_some());
        config.labels.negative_after = Some("30m".parse().unwrap());
        let negatives = config.label_use(&classes).unwrap().negatives.unwrap();
        assert_eq!((negatives.after_ms, negatives.class), (1_800_000, 0));
        config.labels.negative_class = Some("yes".to_owned());
        let error = config.label_use(&classes).unwrap_err().to_string();
        assert!(
            error.contains("\"yes\"") && error.contains("no, click"),
            "{error}"
        );
    }

    #[test]
    fn with_many_classes_fewer_events_wait_than_with_two() {
        let config = Config::default();
        let labels = |classes: usize| {
            let names: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
            config.label_use(&names).unwrap()
        };
        let few = labels(2);
        assert_eq!((few.capacity, few.window), (100_000, 10_000));
        let many = labels(10_000);
        // 256 MiB of 120,160 bytes each.
        assert_eq!((many.capacity, many.window), (2_233, 2_233));
    }
}
