//! Looks at some events of a topic beside what the bundle takes: the first thing that a new user runs.

mod field;
mod order;
mod renamed;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use ostar_bundle::Bundle;
use ostar_connectors::{
    event::{Chunk, Decoder, InputRows, RejectReason},
    kafka::{Connection, KafkaSettings, OwnedRecord, Polled},
};
use ostar_method::profile::{FieldReport, InputProfile, Tally};
use serde::Serialize;

pub(crate) use self::{field::FieldLook, order::OrderLook};
use self::{
    order::{of_bundle, of_events},
    renamed::Found,
};
use crate::config::Config;

/// How long the broker may take to answer, and how long events may take to come.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait for more events once some have come.
const LULL: Duration = Duration::from_secs(2);
/// Most reasons of rejected events that are told.
const MOST_EXAMPLES: usize = 5;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Inspection {
    /// Events that were looked at.
    pub(crate) events: usize,
    /// How many of them could be used.
    pub(crate) used: usize,
    /// Events that have an id.
    pub(crate) with_id: usize,
    /// Oldest and newest time of the events, in milliseconds since 1970.
    pub(crate) times_ms: Option<(i64, i64)>,
    /// How many were rejected for each reason, with the first detail.
    pub(crate) rejected: BTreeMap<&'static str, (usize, String)>,
    /// Whether the bundle says what training had.
    pub(crate) training_known: bool,
    /// In the bundle's order.
    pub(crate) fields: Vec<FieldLook>,
    /// What labelled rows say about the order of the classes.
    pub(crate) class_order: Vec<OrderLook>,
    /// What looks wrong, in sentences.
    pub(crate) troubles: Vec<String>,
}

/// The newest events of a topic, at most so many; at least one.
pub(crate) fn read(settings: &KafkaSettings, most: usize) -> Result<Vec<OwnedRecord>> {
    let events = read_some(settings, most)?;
    if events.is_empty() {
        bail!(
            "topic `{}` has no events that came within {PATIENCE:?}, expected some to look at",
            settings.topic
        );
    }
    Ok(events)
}

/// The same of a topic that may be empty.
pub(crate) fn read_some(settings: &KafkaSettings, most: usize) -> Result<Vec<OwnedRecord>> {
    let connection = Connection::open(settings, PATIENCE)?;
    let (start, end) = connection.newest(most);
    let wanted: i64 = start.iter().map(|(at, from)| end[at] - from).sum();
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let mut reader = connection.read_from(&start, PATIENCE)?;
    let mut events = Vec::new();
    let mut heard = Instant::now();
    // Offsets of a compacted topic or of transactions have gaps: fewer events than offsets may come.
    while (events.len() as i64) < wanted
        && heard.elapsed() < if events.is_empty() { PATIENCE } else { LULL }
    {
        if let Polled::Record(record) = reader.poll(Duration::from_millis(100))? {
            heard = Instant::now();
            if record.offset >= end.get(&record.partition).copied().unwrap_or(i64::MAX) {
                continue;
            }
            // A tombstone is no event.
            events.extend(record.copied());
        }
    }
    Ok(events)
}

/// Looks at events as the daemon would read them. `labels` are the newest of `labels.topic`; `None` without one.
pub(crate) fn look(
    bundle: &Bundle,
    config: &Config,
    events: &[OwnedRecord],
    labels: Option<&[OwnedRecord]>,
) -> Result<Inspection> {
    let settings = &config.events;
    let description = bundle.description();
    let (input, classes) = (&description.input, bundle.classes());
    let decoder = Decoder::new(settings, input, classes)?;
    let mut chunk = Chunk::new(InputRows::new(input, classes));
    let mut rejected: BTreeMap<&'static str, (usize, String)> = BTreeMap::new();
    let mut cells = Vec::new();
    for event in events {
        if let Some(id) = decoder.schema_to_fetch(&event.payload) {
            decoder.fetch_schema(id, 0)?;
        }
        match decoder.decode(&event.payload, event.meta(), &mut chunk) {
            Ok(()) => cells.push(decoder.fields(&event.payload).unwrap_or_default()),
            Err(reject) => {
                if reject.reason == RejectReason::MissingInput {
                    // All fields are missing where they are looked for: they may be elsewhere.
                    cells.push(Vec::new());
                }
                let known = rejected.entry(reject.reason.as_str()).or_default();
                known.0 += 1;
                if known.1.is_empty() {
                    known.1 = reject.detail;
                }
            }
        }
    }
    let reports = bundle.inputs().map(|profile| {
        compare(
            profile,
            &chunk.rows,
            description.training_proportions.as_ref(),
        )
    });
    let reports = reports.transpose()?.unwrap_or_default();
    let fields = field::looks(bundle, settings, &cells, &reports);
    let leaves: Vec<_> = events
        .iter()
        .map(|event| decoder.leaves(&event.payload))
        .collect();
    let mut troubles = Vec::new();
    for (place, look) in fields.iter().enumerate() {
        let found = renamed::search(bundle, &decoder, look, &fields, &leaves);
        troubles.extend(trouble(look, reports.get(place), found));
    }
    let mut class_order = vec![of_bundle(bundle)?];
    if let Some(labels) = labels {
        class_order.push(of_events(bundle, &config.labels, &chunk, labels)?);
    }
    troubles.extend(class_order.iter().filter_map(|look| look.trouble.clone()));
    let times = chunk.events.iter().map(|event| event.time_ms);
    Ok(Inspection {
        events: events.len(),
        used: chunk.len(),
        with_id: chunk
            .events
            .iter()
            .filter(|event| event.id.is_some())
            .count(),
        times_ms: times.clone().min().zip(times.max()),
        rejected: rejected.into_iter().take(MOST_EXAMPLES).collect(),
        training_known: bundle.inputs().is_some(),
        fields,
        class_order,
        troubles,
    })
}

/// All fields beside training, at the shares of classes that fit them best.
fn compare(profile: &InputProfile, rows: &InputRows, training: &[f64]) -> Result<Vec<FieldReport>> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut tally = Tally::default();
    tally.add(profile, rows.inputs(), rows.len());
    let count = rows.len() as f64;
    let mut mixtures = vec![training.to_vec()];
    for class in 0..training.len() {
        for weight in [0.25, 0.5, 0.75, 1.0] {
            let mut mixture: Vec<f64> = training.iter().map(|p| (1.0 - weight) * p).collect();
            mixture[class] += weight;
            mixtures.push(mixture);
        }
    }
    let apart =
        |reports: &Vec<FieldReport>| -> f64 { reports.iter().map(|report| report.distance).sum() };
    let reports = mixtures
        .iter()
        .map(|mixture| profile.compare(&tally, count, mixture));
    reports
        .min_by(|a, b| apart(a).total_cmp(&apart(b)))
        .context("a model has classes")
}

/// What is wrong with a field, in words.
fn trouble(look: &FieldLook, report: Option<&FieldReport>, found: Option<Found>) -> Option<String> {
    let renamed = found.map(|Found { path, by_values }| {
        let why = if by_values {
            format!("`{path}` has what `{}` had in training", look.name)
        } else {
            format!("`{path}` has a similar name")
        };
        let name = &look.name;
        format!("; it looks renamed: {why}. Set events.fields.{name} = {path:?} if that is so")
    });
    let told = report
        .filter(|report| report.trouble.is_some())
        .map(FieldReport::to_string);
    let missing = || {
        (look.missing >= 0.5).then(|| {
            format!(
                "`{}` is missing in {:.0} % of events",
                look.name,
                100.0 * look.missing
            )
        })
    };
    Some(told.or_else(missing)? + &renamed.unwrap_or_default())
}
