//! The dashboard and rule files: generated, accepted by promtool, each alert with unit tests and a runbook page.

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};
use ostar_tests::prometheus;

use crate::{Needs, repository, run};

type FileTest = fn() -> Result<()>;

pub(crate) const TESTS: &[(&str, Needs, FileTest)] = &[
    (
        "the_dashboards_are_what_the_generator_writes",
        Needs::Python,
        dashboards_are_generated,
    ),
    (
        "every_alert_has_a_test_that_it_fires_and_one_that_it_does_not",
        Needs::Nothing,
        alerts_are_tested,
    ),
    (
        "every_alert_has_a_runbook_page_and_every_page_an_alert",
        Needs::Nothing,
        alerts_have_pages,
    ),
    (
        "promtool_accepts_the_rules_and_their_unit_tests_pass",
        Needs::Prometheus,
        promtool_passes,
    ),
];

/// Prefix of the alerts' `runbook_url`.
const PAGES: &str = "https://github.com/ostard/ostard/blob/main/docs/runbooks/";

/// Sections of a runbook page, in this order.
const SECTIONS: [&str; 3] = [
    "\n## What it means\n",
    "\n## How to confirm\n",
    "\n## What to do\n",
];

fn dashboards_are_generated() -> Result<()> {
    run(Command::new("python3")
        // -B: no bytecode files in the checkout.
        .args(["-B", "-m", "generator", "--check"])
        .current_dir(repository("dashboards")))
}

fn promtool_passes() -> Result<()> {
    let promtool = prometheus::folder()?.join("promtool");
    let (rules, tests) = (files("dashboards/rules")?, files("dashboards/tests")?);
    run(Command::new(&promtool).args(["check", "rules"]).args(rules))?;
    run(Command::new(&promtool).args(["test", "rules"]).args(tests))
}

fn alerts_are_tested() -> Result<()> {
    let (mut firing, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    for path in files("dashboards/tests")? {
        let text = fs::read_to_string(&path)?;
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if let Some(alert) = line.strip_prefix("alertname: ") {
                let expected = lines.next().unwrap_or_default();
                let seen = match expected {
                    "exp_alerts: []" => &mut quiet,
                    "exp_alerts:" => &mut firing,
                    _ => anyhow::bail!("{}: {alert}: {expected}", path.display()),
                };
                seen.insert(alert.to_owned());
            }
        }
    }
    let alerts = values("alert: ")?;
    let same = |tested: &BTreeSet<String>, what: &str| {
        let differing: Vec<_> = tested.symmetric_difference(&alerts).collect();
        ensure!(differing.is_empty(), "{what}: {differing:?}");
        Ok(())
    };
    same(&firing, "alerts without a test that they fire")?;
    same(&quiet, "alerts without a test that they do not")
}

fn alerts_have_pages() -> Result<()> {
    let folder = repository("docs/runbooks");
    let index = fs::read_to_string(folder.join("README.md"))?;
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        pages.insert(name);
    }
    pages.remove("README.md");
    let alerts = values("alert: ")?;
    let expected: BTreeSet<String> = alerts.iter().map(|alert| format!("{alert}.md")).collect();
    ensure!(pages == expected, "pages {pages:?}, alerts {expected:?}");
    let links = expected.iter().map(|page| format!("{PAGES}{page}"));
    let linked = values("runbook_url: ")?;
    ensure!(links.collect::<BTreeSet<_>>() == linked, "{linked:?}");
    for page in &pages {
        let text = fs::read_to_string(folder.join(page))?;
        let places = SECTIONS.map(|section| text.find(section));
        let in_order = places.is_sorted() && places[0].is_some();
        ensure!(in_order, "{page} lacks one of {SECTIONS:?}");
        ensure!(index.contains(page.as_str()), "{page} is not in README.md");
    }
    Ok(())
}

/// All values of a key in the rule files.
fn values(key: &str) -> Result<BTreeSet<String>> {
    let mut values = BTreeSet::new();
    for path in files("dashboards/rules")? {
        let text = fs::read_to_string(&path)?;
        let found = text.lines().filter_map(|line| {
            let line = line.trim().trim_start_matches("- ");
            line.strip_prefix(key)
        });
        values.extend(found.map(str::to_owned));
    }
    ensure!(!values.is_empty(), "no {key:?} in dashboards/rules");
    Ok(values)
}

fn files(folder: &str) -> Result<Vec<PathBuf>> {
    let folder = repository(folder);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}
