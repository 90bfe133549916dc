//! The metrics that are figures of the state. They are made of it at every scrape, so that nothing has to be kept up to date.

use prometheus::{
    IntCounter,
    proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType},
};

use super::classes::ClassLabels;
use crate::{
    facts::{CLASS_FACTS, FACTS, SERIES},
    proto::State,
};

/// Families under way. A figure that is not known is absent, rather than 0 or NaN.
struct Stated<'a> {
    families: Vec<MetricFamily>,
    non_finite: &'a IntCounter,
}

/// All figures of a state. Those that are not finite are counted and left out.
pub(super) fn families(
    state: &State,
    classes: &ClassLabels,
    non_finite: &IntCounter,
) -> Vec<MetricFamily> {
    let mut stated = Stated {
        families: Vec::new(),
        non_finite,
    };
    for fact in FACTS {
        stated.family(fact.metric, fact.help);
        stated.add(&[], (fact.of)(state));
    }
    for fact in CLASS_FACTS {
        stated.family(fact.metric, fact.help);
        let values = (0..state.classes.len()).map(|class| (fact.of)(state, class));
        let values: Vec<Option<f64>> = values.collect();
        for (class, value) in classes.series(&values, fact.has_sum) {
            match fact.candidate {
                Some(candidate) => {
                    stated.add(&[("candidate", candidate), ("class", class)], value);
                }
                None => stated.add(&[("class", class)], value),
            }
        }
    }
    for series in SERIES {
        stated.family(series.metric, series.help);
        (series.read)(state, &mut |values, value| {
            let names = series.labels.iter().copied();
            let labels: Vec<_> = names.zip(values.iter().copied()).collect();
            stated.add(&labels, value);
        });
    }
    let has_values = |family: &MetricFamily| !family.get_metric().is_empty();
    stated.families.retain(has_values);
    stated.families
}

impl Stated<'_> {
    /// Facts of one family stand beside each other.
    fn family(&mut self, name: &str, help: &str) {
        if self.families.last().is_some_and(|last| last.name() == name) {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(MetricType::GAUGE);
        self.families.push(family);
    }

    /// Adds a value to the newest family. Labels are in the order of their names.
    fn add(&mut self, labels: &[(&str, &str)], value: Option<f64>) {
        let (Some(value), Some(family)) = (value, self.families.last_mut()) else {
            return;
        };
        if !value.is_finite() {
            self.non_finite.inc();
            return;
        }
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let labels = labels.iter().map(|(name, value)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        });
        let mut metric = Metric::from_label(labels.collect());
        metric.set_gauge(gauge);
        family.mut_metric().push(metric);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_finite_is_counted_and_left_out() {
        let counter = IntCounter::new("ostar_non_finite_values_total", "Counted.").unwrap();
        let mut stated = Stated {
            families: Vec::new(),
            non_finite: &counter,
        };
        stated.family("measured", "Values.");
        stated.add(&[("class", "ham")], Some(0.5));
        stated.add(&[("class", "spam")], Some(f64::NAN));
        stated.add(&[("class", "other")], Some(f64::INFINITY));
        stated.add(&[("class", "unknown")], None);
        assert_eq!(stated.families[0].get_metric().len(), 1);
        assert_eq!(counter.get(), 2);
    }
}
