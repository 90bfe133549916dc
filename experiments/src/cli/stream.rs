//! `stream`: real data replayed in order through every candidate.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Instant,
};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use ostar_bundle::Bundle;
use serde::{Deserialize, Serialize};

use super::{Common, progress::JobProgress};
use crate::{
    data::{bank::contacts, mail::inboxes},
    gate::failures::Failure,
    results::{Record, Results},
    stream::{Drift, Part, Track, replay, train},
    task::Domain,
};

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    /// Data set to replay.
    #[arg(long, value_enum, required_unless_present = "scenario")]
    set: Option<Set>,
    /// Generated stream on which something goes wrong, through the gate; needs no data, writes no results.
    #[arg(long, value_enum, conflicts_with = "set")]
    scenario: Vec<Failure>,
    /// Pairs of inboxes, such as 1-2 [default: all 30]; only with enron.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    setting: Vec<String>,
    /// Label shift that is added to the stream.
    #[arg(long, value_enum, default_value_t = Drift::Natural)]
    drift: Drift,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Set {
    /// Mail: a filter trained on one inbox, replayed on another.
    Enron,
    /// Phone contacts: a model trained on the first tenth, replayed on the rest.
    Bank,
}

/// Line of the results file: one candidate on one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamLine {
    pub(crate) set: String,
    /// Source and stream, such as `1-2`.
    pub(crate) setting: String,
    /// [`Drift::name`] of the label shift that was added.
    pub(crate) drift: String,
    /// [`Track::name`].
    pub(crate) method: String,
    pub(crate) seed: u64,
    /// Prequential: every block is scored before it is learned from. In percent.
    pub(crate) accuracy: f64,
    /// Mean l1 error of the estimated proportions.
    pub(crate) proportion_error: f64,
    /// Accuracy by tenth of the stream, separated by spaces.
    pub(crate) accuracies: String,
    /// l1 error by tenth of the stream, separated by spaces.
    pub(crate) errors: String,
    /// Of the whole stream, all candidates together.
    pub(crate) seconds: f64,
}

impl Record for StreamLine {
    fn key(&self) -> String {
        let Self {
            set,
            setting,
            drift,
            method,
            seed,
            ..
        } = self;
        format!("{set}|{setting}|{drift}|{method}|{seed}")
    }
}

/// A source to train on and a stream to replay.
struct Scenario<'d> {
    name: String,
    source: &'d Domain,
    stream: &'d Domain,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let Some(set) = options.set else {
        return super::gate::show(&options.scenario, common.seeds);
    };
    let mut results = Results::open::<StreamLine>(&common.results("stream"), common.resume)?;
    let domains = match set {
        Set::Enron => inboxes(&common.data)?,
        Set::Bank => {
            let all = contacts(&common.data)?;
            let numbers: Vec<usize> = (0..all.count()).collect();
            let (first, rest) = numbers.split_at(all.count() / 10);
            vec![all.select(first), all.select(rest)]
        }
    };
    let scenarios = scenarios(options, &domains)?;
    let mut progress = JobProgress::new(scenarios.len() * common.seeds as usize);
    for seed in 0..common.seeds {
        let mut bundles: HashMap<*const Domain, Bundle> = HashMap::new();
        for scenario in &scenarios {
            // Tracks are appended in order, so the last one marks the stream as done.
            let last = line(options, scenario, seed, &Track::new("ostar"), 0.0);
            if results.has(&last.key()) {
                progress.finish_run(&format!(
                    "{} seed {seed}: already in the results",
                    scenario.name
                ));
                continue;
            }
            progress.name(&format!("{} seed {seed}", scenario.name));
            let source: *const Domain = scenario.source;
            if let Entry::Vacant(place) = bundles.entry(source) {
                place.insert(train(scenario.source, seed)?);
            }
            let start = Instant::now();
            let stream = options.drift.apply(scenario.stream, seed);
            let tracks = replay(&bundles[&source], &stream, common.threads, seed)?;
            let seconds = start.elapsed().as_secs_f64();
            let mut text = format!("{} seed {seed}:", scenario.name);
            for track in &tracks {
                let line = line(options, scenario, seed, track, seconds);
                if ["frozen", "prior", "ostar"].contains(&track.name) {
                    text += &format!(" {} {:.2}", track.name, line.accuracy);
                }
                if !results.has(&line.key()) {
                    results.append(&line)?;
                }
            }
            progress.finish_run(&format!("{text}, {seconds:.1} s"));
        }
    }
    Ok(())
}

fn line(
    options: &Options,
    scenario: &Scenario<'_>,
    seed: u64,
    track: &Track,
    seconds: f64,
) -> StreamLine {
    let set = match options.set {
        Some(Set::Bank) => "bank",
        // Without a set there are generated scenarios, which write no results.
        Some(Set::Enron) | None => "enron",
    };
    let mean = |parts: &[Part], of: fn(&Part) -> f64| {
        let rows: f64 = parts.iter().map(|part| part.rows).sum();
        parts.iter().map(of).sum::<f64>() / rows.max(1.0)
    };
    let series = |of: fn(&Part) -> f64, factor: f64| {
        let parts = track.parts.iter().map(std::slice::from_ref);
        let texts = parts.map(|part| format!("{:.4}", factor * mean(part, of)));
        texts.collect::<Vec<_>>().join(" ")
    };
    let rounded = |value: f64| (1e4 * value).round() / 1e4;
    StreamLine {
        set: set.to_owned(),
        setting: scenario.name.clone(),
        drift: options.drift.name().to_owned(),
        method: track.name.to_owned(),
        seed,
        accuracy: rounded(100.0 * mean(&track.parts, |part| part.right)),
        proportion_error: rounded(mean(&track.parts, |part| part.error)),
        accuracies: series(|part| part.right, 100.0),
        errors: series(|part| part.error, 1.0),
        seconds: (10.0 * seconds).round() / 10.0,
    }
}

fn scenarios<'d>(options: &Options, domains: &'d [Domain]) -> Result<Vec<Scenario<'d>>> {
    let scenario = |name: String, source: usize, stream: usize| Scenario {
        name,
        source: &domains[source],
        stream: &domains[stream],
    };
    if options.set == Some(Set::Bank) {
        return Ok(vec![scenario("first tenth-rest".to_owned(), 0, 1)]);
    }
    let mut all = Vec::new();
    for source in 0..domains.len() {
        for target in (0..domains.len()).filter(|target| *target != source) {
            all.push(scenario(
                format!("{}-{}", source + 1, target + 1),
                source,
                target,
            ));
        }
    }
    for setting in &options.setting {
        if !all.iter().any(|known| known.name == *setting) {
            bail!("unknown setting {setting:?}, expected pairs of inboxes such as 1-2");
        }
    }
    if !options.setting.is_empty() {
        all.retain(|known| options.setting.contains(&known.name));
    }
    Ok(all)
}
