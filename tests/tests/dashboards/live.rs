//! Every expression of the dashboards and rules finds data in a Prometheus that scrapes a running demo, a scorer and a
//! learner.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use ostar_tests::{demo::Demo, prometheus::Prometheus};
use serde_json::Value;

use crate::{PROGRAM, panels, repository, split::Split};

type LiveTest = fn(&Running) -> Result<()>;

pub(crate) const TESTS: &[(&str, LiveTest)] = &[
    (
        "every_panel_shows_data_of_a_running_demo_or_of_a_scorer_and_a_learner",
        panels_show_data,
    ),
    (
        "every_variable_of_the_dashboards_finds_values",
        variables_find_values,
    ),
    (
        "every_rule_is_evaluated_and_every_recording_rule_has_data",
        rules_are_evaluated,
    ),
    (
        "every_metric_that_an_alert_names_is_one_of_the_daemon",
        alerts_name_metrics,
    ),
];

/// Longer than any wait in a healthy run under load.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A demo, a scorer and learners, and the Prometheus that scrapes them.
pub(crate) struct Running {
    demo: Demo,
    split: Split,
    prometheus: Prometheus,
}

impl Running {
    pub(crate) fn start() -> Result<Self> {
        // Longer than all tests together may take; the demo is killed when they are done.
        let seconds = 2 * TIMEOUT.as_secs() * TESTS.len() as u64;
        // Mode auto takes no steps, and shows nothing of them, before the classes change.
        let demo = Demo::start(PROGRAM, seconds, "adapted")?;
        let rules = repository("dashboards/rules");
        let split = Split::start()?;
        let mut targets = split.targets()?;
        targets.push(demo.http_address.clone());
        let prometheus = Prometheus::start(&targets, &rules.canonicalize()?)?;
        Ok(Self {
            demo,
            split,
            prometheus,
        })
    }

    /// Whether an expression gives a finite number. A quantile without samples is NaN.
    fn shows_data(&self, expression: &str) -> Result<bool> {
        let series = self.prometheus.query(expression)?;
        let values = series.iter().filter_map(|one| one["value"][1].as_str());
        Ok(values
            .filter_map(|text| text.parse::<f64>().ok())
            .any(f64::is_finite))
    }

    /// Sends requests until every expression has shown data; the error names those that did not.
    fn all_show_data(&self, mut waiting: Vec<panels::Question>) -> Result<()> {
        let mut problem = None;
        let shown = ostar_tests::until("data", TIMEOUT, || {
            self.demo.predict()?;
            self.split.feed()?;
            let mut still = Vec::new();
            for question in waiting.drain(..) {
                let place = || format!("{}: {}", question.place, question.expression);
                if !self.shows_data(&question.expression).with_context(place)? {
                    still.push(question);
                }
            }
            waiting = still;
            problem = Some(format!("no data: {waiting:#?}"));
            Ok(waiting.is_empty().then_some(()))
        });
        shown.with_context(|| problem.unwrap_or_default())
    }
}

fn panels_show_data(running: &Running) -> Result<()> {
    for annotation in panels::annotations()? {
        running.prometheus.query(&annotation)?;
    }
    running.all_show_data(panels::questions()?)
}

fn variables_find_values(running: &Running) -> Result<()> {
    for variable in panels::variables()? {
        ostar_tests::until(&variable.place, TIMEOUT, || {
            let prometheus = &running.prometheus;
            let values = prometheus.label_values(&variable.label, &variable.selector)?;
            Ok((!values.is_empty()).then_some(()))
        })?;
    }
    Ok(())
}

fn rules_are_evaluated(running: &Running) -> Result<()> {
    let rules = ostar_tests::until("the first evaluation", TIMEOUT, || {
        let rules = running.prometheus.rules()?;
        let evaluated = rules.iter().all(|rule| rule["health"] != "unknown");
        Ok(evaluated.then_some(rules))
    })?;
    let mut recorded = Vec::new();
    for rule in &rules {
        ensure!(rule["health"] == "ok", "{rule:#}");
        if rule["type"] == "recording" {
            let name = rule["name"].as_str().context("no name")?;
            recorded.push(panels::Question {
                place: "recording rule".to_owned(),
                expression: name.to_owned(),
            });
        }
    }
    ensure!(!recorded.is_empty(), "no recording rules: {rules:#?}");
    running.all_show_data(recorded)
}

/// Metrics that a demo has not: it listens without TLS. A test of the listeners holds the name.
const WITH_TLS_ALONE: &[&str] = &["ostar_certificate_expiry_seconds"];

fn alerts_name_metrics(running: &Running) -> Result<()> {
    let alerts = running.prometheus.rules()?;
    let expressions = alerts.iter().filter_map(|rule| rule["query"].as_str());
    let mut selectors: BTreeSet<String> = expressions.flat_map(selectors).collect();
    selectors.retain(|selector| !WITH_TLS_ALONE.contains(&selector.as_str()));
    ensure!(selectors.len() > 20, "only {selectors:?}");
    for selector in &selectors {
        if let Err(error) = ostar_tests::until(selector, TIMEOUT, || {
            Ok((!running.prometheus.query(selector)?.is_empty()).then_some(()))
        }) {
            bail!("{error}; no such series in {:#?}", names(running)?);
        }
    }
    Ok(())
}

/// The `ostar_` metrics of an expression, with their label matchers.
fn selectors(expression: &str) -> Vec<String> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':');
    let starts = expression.match_indices("ostar_").map(|(start, _)| start);
    let starts = starts.filter(|start| !expression[..*start].ends_with(is_name));
    starts
        .map(|start| {
            let rest = &expression[start..];
            let name = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
            let end = if rest[name..].starts_with('{') {
                rest.find('}').map_or(rest.len(), |end| end + 1)
            } else {
                name
            };
            rest[..end].to_owned()
        })
        .collect()
}

fn names(running: &Running) -> Result<Vec<Value>> {
    running
        .prometheus
        .label_values("__name__", r#"{__name__=~"ostar_.+"}"#)
}
