//! Reads the Prometheus expressions of the checked-in dashboards.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::repository;

/// An expression, and the dashboard and panel it belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) place: String,
    pub(crate) expression: String,
}

/// A dashboard variable, defined as `label_values(selector, label)`.
#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) place: String,
    pub(crate) selector: String,
    pub(crate) label: String,
}

fn dashboards() -> Result<Vec<Value>> {
    let mut dashboards = Vec::new();
    for entry in fs::read_dir(repository("dashboards/grafana"))? {
        dashboards.push(serde_json::from_slice(&fs::read(entry?.path())?)?);
    }
    ensure!(!dashboards.is_empty(), "no dashboards");
    Ok(dashboards)
}

/// The expressions of all panels, with every variable set to all its values.
pub(crate) fn questions() -> Result<Vec<Question>> {
    let mut questions = Vec::new();
    for dashboard in dashboards()? {
        for panel in dashboard["panels"].as_array().context("no panels")? {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expression = target["expr"].as_str().context("no expression")?;
                questions.push(Question {
                    place: format!("{}, {}", dashboard["title"], panel["title"]),
                    expression: everything_chosen(expression),
                });
            }
        }
    }
    Ok(questions)
}

/// The expressions of annotations, which may find nothing.
pub(crate) fn annotations() -> Result<Vec<String>> {
    let dashboards = dashboards()?;
    let lists = dashboards.iter().map(|one| &one["annotations"]["list"]);
    let annotations = lists.filter_map(Value::as_array).flatten();
    annotations
        .map(|one| Ok(one["expr"].as_str().context("no expression")?.to_owned()))
        .collect()
}

/// The variables that are filled from Prometheus.
pub(crate) fn variables() -> Result<Vec<Variable>> {
    let mut variables = Vec::new();
    for dashboard in dashboards()? {
        let list = dashboard["templating"]["list"].as_array();
        for variable in list.context("no variables")? {
            let Some(query) = variable["query"]["query"].as_str() else {
                continue;
            };
            let place = format!("{}, {}", dashboard["title"], variable["name"]);
            let inside = query.strip_prefix("label_values(");
            let inside = inside.and_then(|rest| rest.strip_suffix(')'));
            let parts = inside.and_then(|inside| inside.rsplit_once(", "));
            let (selector, label) = parts.with_context(|| place.clone())?;
            variables.push(Variable {
                place,
                selector: everything_chosen(selector),
                label: label.to_owned(),
            });
        }
    }
    Ok(variables)
}

/// Replaces variables as Grafana does. The interval is 30 s because the demo writes checkpoints less than that apart.
fn everything_chosen(expression: &str) -> String {
    let mut filled = expression.replace("$__rate_interval", "30s");
    for variable in ["$job", "$instance", "$class"] {
        filled = filled.replace(&format!("\"{variable}\""), "\".+\"");
    }
    filled
}
