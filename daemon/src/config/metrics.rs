//! Which classes have metrics of their own.

use std::mem;

use ostar_bundle::Description;
use ostar_connectors::settings::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::nearest;

/// Most names that an error lists: a model may have thousands of classes.
const MOST_LISTED: usize = 20;
/// Most characters of a name in an error.
const MOST_CHARACTERS: usize = 40;

/// Which classes have metrics of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct MetricsSettings {
    /// Most classes with metrics of their own, and on the live page. The rest have one series together, `class="other"`,
    /// where a sum says something.
    #[schemars(range(min = 1))]
    pub(crate) max_classes: usize,
    /// Classes that have metrics of their own whatever their share. The most common ones in training fill up to
    /// `max_classes`.
    pub(crate) classes: Vec<String>,
}

impl MetricsSettings {
    pub(super) fn validate(&self, problems: &mut Vec<Problem>) {
        let named = self.classes.len();
        if named > self.max_classes {
            let hint = format!(
                "names {named} classes, expected at most metrics.max_classes = {}: raise it, or name fewer",
                self.max_classes
            );
            problems.push(Problem::key("metrics.classes", hint));
        }
    }

    /// Numbers of the classes with metrics of their own: those that are named, then the most common ones in training,
    /// and of equally common ones the first. Depends on the bundle and these settings alone, so that it stays the same
    /// over restarts.
    pub(crate) fn chosen(&self, description: &Description) -> Result<Vec<usize>, Problem> {
        let classes = &description.classes;
        let number = |name: &String| classes.iter().position(|class| class == name);
        let (known, unknown): (Vec<&String>, Vec<&String>) =
            self.classes.iter().partition(|name| number(name).is_some());
        if !unknown.is_empty() {
            return Err(unknown_classes(&unknown, classes));
        }
        let training = &description.training_proportions;
        let mut common: Vec<usize> = (0..classes.len()).collect();
        common.sort_by(|left, right| training[*right].total_cmp(&training[*left]));
        let mut seen = vec![false; classes.len()];
        let in_order = known.into_iter().filter_map(number).chain(common);
        let first_time = in_order.filter(|class| !mem::replace(&mut seen[*class], true));
        Ok(first_time.take(self.max_classes).collect())
    }
}

fn unknown_classes(unknown: &[&String], classes: &[String]) -> Problem {
    let mut hint = format!(
        "expected names of the bundle's classes: {}",
        listed(classes)
    );
    let known = || classes.iter().map(String::as_str);
    if let Some(name) = unknown.iter().find_map(|name| nearest(name, known())) {
        hint.push_str(&format!("; did you mean {:?}?", short(name)));
    }
    let hint = format!("names {}, {hint}", listed(unknown));
    Problem::key("metrics.classes", hint)
}

/// The first names, and how many there are beside them.
fn listed(names: &[impl AsRef<str>]) -> String {
    let shown = names.iter().take(MOST_LISTED);
    let mut shown: Vec<String> = shown
        .map(|name| format!("{:?}", short(name.as_ref())))
        .collect();
    if names.len() > MOST_LISTED {
        shown.push(format!("and {} more", names.len() - MOST_LISTED));
    }
    shown.join(", ")
}

fn short(name: &str) -> String {
    match name.char_indices().nth(MOST_CHARACTERS) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}...", &name[..end]),
    }
}
