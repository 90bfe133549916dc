//! The metrics that are figures of the state. They are made of it at every scrape, so that nothing has to be kept up to date.

use prometheus::{GaugeVec, IntCounter, Registry, proto::MetricFamily};

use super::{classes::ClassLabels, families::Families};
use crate::{
    facts::{CLASS_FACTS, FACTS, SERIES},
    proto::State,
};

/// All figures of a state. A figure that is not known is absent, rather than 0 or NaN; those that are not finite are counted
/// and left out.
pub(super) fn families(
    state: &State,
    classes: &ClassLabels,
    non_finite: &IntCounter,
) -> Vec<MetricFamily> {
    let registry = Registry::new();
    let families = Families(&registry);
    for fact in FACTS {
        let gauge = families.measured(fact.metric, fact.help, &[]);
        set(&gauge, &[], (fact.of)(state), non_finite);
    }
    // Facts of one family stand beside each other.
    for facts in CLASS_FACTS.chunk_by(|one, next| one.metric == next.metric) {
        let [first, ..] = facts else { continue };
        let labels = first.candidate.map(|_| "candidate");
        let labels: Vec<&str> = labels.into_iter().chain(["class"]).collect();
        let gauge = families.measured(first.metric, first.help, &labels);
        for fact in facts {
            let values = (0..state.classes.len()).map(|class| (fact.of)(state, class));
            let values: Vec<Option<f64>> = values.collect();
            for (class, value) in classes.series(&values, fact.has_sum) {
                let labels: Vec<&str> = fact.candidate.into_iter().chain([class]).collect();
                set(&gauge, &labels, value, non_finite);
            }
        }
    }
    for series in SERIES {
        let gauge = families.measured(series.metric, series.help, series.labels);
        (series.read)(state, &mut |labels, value| {
            set(&gauge, labels, value, non_finite);
        });
    }
    registry.gather()
}

fn set(gauge: &GaugeVec, labels: &[&str], value: Option<f64>, non_finite: &IntCounter) {
    match value {
        Some(value) if value.is_finite() => gauge.with_label_values(labels).set(value),
        Some(_) => non_finite.inc(),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_finite_is_counted_and_left_out() {
        let counter = IntCounter::new("ostar_non_finite_values_total", "Counted.").unwrap();
        let registry = Registry::new();
        let gauge = Families(&registry).measured("measured", "Values.", &["class"]);
        set(&gauge, &["ham"], Some(0.5), &counter);
        set(&gauge, &["spam"], Some(f64::NAN), &counter);
        set(&gauge, &["other"], Some(f64::INFINITY), &counter);
        set(&gauge, &["unknown"], None, &counter);
        assert_eq!(registry.gather()[0].get_metric().len(), 1);
        assert_eq!(counter.get(), 2);
    }
}
