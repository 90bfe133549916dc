//! Whether labelled rows fit the order of the bundle's classes: its own, and events whose labels are there already.

use std::collections::HashMap;

use anyhow::Result;
use ostar_bundle::Bundle;
use ostar_connectors::{
    event::Chunk,
    kafka::OwnedRecord,
    labels::{LabelDecoder, LabelSettings},
};
use ostar_engine::{Rows, evaluate::Scratch};
use ostar_method::{
    diagnostics::{OrderCheck, check_class_order},
    frozen::FrozenScores,
};
use serde::Serialize;

use crate::class_order::{describe_order, wrong_order};

/// What some rows say about the order of the classes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OrderLook {
    /// Which rows, in words.
    pub(crate) of: &'static str,
    /// Labelled rows.
    pub(crate) rows: usize,
    /// What they say, in words.
    pub(crate) says: String,
    /// The same if they fit another order better; it is listed with the other troubles.
    #[serde(skip)]
    pub(crate) trouble: Option<String>,
}

/// The held-out rows that the bundle carries.
pub(super) fn of_bundle(bundle: &Bundle) -> Result<OrderLook> {
    let held_out = bundle.held_out()?;
    let rows = Rows::new(held_out.probabilities.as_slice(), bundle.classes())?;
    let check = check_class_order(rows, &held_out.labels)?;
    Ok(describe("held-out rows of the bundle", &check, bundle))
}

/// Events whose labels are among `labels`.
pub(super) fn of_events(
    bundle: &Bundle,
    settings: &LabelSettings,
    chunk: &Chunk,
    labels: &[OwnedRecord],
) -> Result<OrderLook> {
    let decoder = LabelDecoder::new(settings, &bundle.description().classes);
    let mut classes = HashMap::new();
    for label in labels {
        if let Ok(label) = decoder.decode(&label.payload) {
            // The first label of an id counts, as in the daemon.
            classes.entry(label.id).or_insert(label.class);
        }
    }
    let mut scores = FrozenScores::default();
    if !chunk.is_empty() {
        bundle
            .frozen()?
            .score(chunk.rows.inputs(), &mut Scratch::default(), &mut scores)?;
    }
    let (mut probabilities, mut found) = (Vec::new(), Vec::new());
    let rows = scores.probabilities().chunks_exact(bundle.classes());
    for (event, row) in chunk.events.iter().zip(rows) {
        if let Some(class) = event.id.as_ref().and_then(|id| classes.get(&**id)) {
            probabilities.extend_from_slice(row);
            found.push(*class);
        }
    }
    let rows = Rows::new(&probabilities[..], bundle.classes())?;
    let check = check_class_order(rows, &found)?;
    Ok(describe("events with labels", &check, bundle))
}

fn describe(of: &'static str, check: &OrderCheck, bundle: &Bundle) -> OrderLook {
    let classes = &bundle.description().classes;
    OrderLook {
        of,
        rows: check.rows,
        says: describe_order(check, classes),
        trouble: wrong_order(check, classes),
    }
}

#[cfg(test)]
mod tests {
    use ostar_bundle::fit::{FitSettings, Labelled, LabelledRows, fit};

    use super::*;
    use crate::{config::Config, inspect::look};

    /// Probabilities of 300 rows, every third of which is a click.
    fn row(number: usize) -> ([f32; 2], &'static str) {
        let sure = 0.55 + (number % 40) as f32 / 100.0;
        match number % 3 {
            0 => ([1.0 - sure, sure], "click"),
            _ => ([sure, 1.0 - sure], "no_click"),
        }
    }

    fn bundle(classes: [&str; 2]) -> Bundle {
        let labels: Vec<u32> = (0..300)
            .map(|n| u32::from(row(n).1 == classes[1]))
            .collect();
        let values: Vec<f32> = (0..300).flat_map(|n| row(n).0).collect();
        let labelled = Labelled {
            classes: &classes.map(str::to_owned),
            labels: &labels,
            rows: LabelledRows::Probabilities(Rows::new(&values[..], 2).unwrap()),
        };
        fit(labelled, &FitSettings::default(), &mut |_| ()).unwrap()
    }

    fn records(record: impl Fn(usize) -> serde_json::Value) -> Vec<OwnedRecord> {
        let event = |number: usize| OwnedRecord {
            payload: record(number).to_string().into_bytes(),
            key: None,
            partition: 0,
            offset: number as i64,
            timestamp_ms: Some(0),
        };
        (0..300).map(event).collect()
    }

    #[test]
    fn the_bundles_rows_and_labels_that_have_come_are_both_looked_at() {
        let events = records(|n| serde_json::json!({"id": n, "probabilities": row(n).0}));
        let labels = records(|n| serde_json::json!({"id": n, "label": row(n).1}));
        let config = Config::default();
        let right = bundle(["no_click", "click"]);
        let found = look(&right, &config, &events, Some(&labels)).unwrap();
        assert_eq!(found.troubles, Vec::<String>::new());
        assert!(
            found
                .class_order
                .iter()
                .all(|look| look.says.ends_with("confirm it"))
        );
        let found = look(&right, &config, &events, Some(&[])).unwrap();
        assert!(
            found.class_order[1].says.contains("not checked"),
            "{:?}",
            found.class_order
        );
        let wrong = bundle(["click", "no_click"]);
        let found = look(&wrong, &config, &events, Some(&labels)).unwrap();
        assert_eq!(found.troubles.len(), 2, "{:?}", found.troubles);
        assert!(
            found.troubles[1].contains("--classes no_click,click"),
            "{:?}",
            found.troubles
        );
    }
}
