//! What the series of the classes are called. The classes that [`MetricsSettings`] chooses have series of their own; the
//! rest have one together, in the families of which a sum says something.

use ostar_bundle::Description;

use crate::config::{MetricsSettings, Problems};

/// The label `class`, for all families that have it.
#[derive(Debug)]
pub(crate) struct ClassLabels {
    /// Names of all classes, in the bundle's order.
    names: Vec<String>,
    /// Classes with series of their own, the first choice first.
    chosen: Vec<usize>,
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

    /// Names of all classes, in the bundle's order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Numbers of the classes with series of their own, the first choice first.
    pub(crate) fn chosen(&self) -> &[usize] {
        &self.chosen
    }

    /// The label under which a class is counted.
    pub(super) fn label(&self, class: usize) -> &str {
        match &self.rest {
            Some(rest) if !self.is_chosen[class] => rest,
            _ => &self.names[class],
        }
    }

    /// Label and value of each class with series of its own, from values of all classes. For values that have no sum.
    pub(super) fn each<'a, T: 'a>(
        &'a self,
        values: impl IntoIterator<Item = T> + 'a,
    ) -> impl Iterator<Item = (&'a str, T)> + 'a {
        let all = self.names.iter().zip(&self.is_chosen).zip(values);
        let chosen = all.filter(|((_, chosen), _)| **chosen);
        chosen.map(|((name, _), value)| (name.as_str(), value))
    }

    /// The same, and the sum of the values of the rest.
    pub(super) fn summed<'a>(
        &'a self,
        values: &'a [f64],
    ) -> impl Iterator<Item = (&'a str, f64)> + 'a {
        let sum = || {
            let others = values.iter().zip(&self.is_chosen);
            let others = others.filter(|(_, chosen)| !**chosen);
            others.map(|(value, _)| value).sum()
        };
        let rest = self.rest.iter().map(move |label| (label.as_str(), sum()));
        self.each(values.iter().copied()).chain(rest)
    }
}

#[cfg(test)]
mod tests;
