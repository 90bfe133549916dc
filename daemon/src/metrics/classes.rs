//! What the series of the classes are called. The classes that [`MetricsSettings`] chooses have series of their own; the
//! rest have one together, in the families of which a sum says something.

use ostar_bundle::Description;

use crate::config::{MetricsSettings, Problems};

/// The label `class`, for all families that have it.
#[derive(Debug)]
pub(crate) struct ClassLabels {
    /// Names of all classes, in the bundle's order.
    pub(crate) names: Vec<String>,
    /// Numbers of the classes with series of their own, the first choice first.
    pub(crate) chosen: Vec<usize>,
    /// Whether a class is one of them, in the bundle's order.
    is_chosen: Vec<bool>,
    /// The label of all others together; `None` if there are none.
    rest: Option<String>,
}

impl ClassLabels {
    pub(super) fn new(
        description: &Description,
        settings: &MetricsSettings,
    ) -> Result<Self, Problems> {
        let names = description.classes.clone();
        let chosen = settings.chosen(description)?;
        let mut is_chosen = vec![false; names.len()];
        for class in &chosen {
            is_chosen[*class] = true;
        }
        // No class may be taken for the rest.
        let mut rest = "other".to_owned();
        while names.contains(&rest) {
            rest.push('_');
        }
        let rest = (chosen.len() < names.len()).then_some(rest);
        Ok(Self {
            names,
            chosen,
            is_chosen,
            rest,
        })
    }

    /// The label under which a class is counted.
    pub(super) fn label(&self, class: usize) -> &str {
        match &self.rest {
            Some(rest) if !self.is_chosen[class] => rest,
            _ => &self.names[class],
        }
    }

    /// Label and value of each class with series of its own, from values of all classes. If they have a sum, that of the
    /// rest, too.
    pub(super) fn series<'a>(
        &'a self,
        values: &'a [Option<f64>],
        has_sum: bool,
    ) -> impl Iterator<Item = (&'a str, Option<f64>)> + 'a {
        let all = move || self.names.iter().zip(&self.is_chosen).zip(values);
        let own = all().filter(|((_, chosen), _)| **chosen);
        let rest = self.rest.iter().filter(move |_| has_sum);
        let rest = rest.map(move |label| {
            let others = all().filter(|((_, chosen), _)| !**chosen);
            (label.as_str(), others.map(|(_, value)| *value).sum())
        });
        own.map(|((name, _), value)| (name.as_str(), *value))
            .chain(rest)
    }
}

#[cfg(test)]
mod tests;
