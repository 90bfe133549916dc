//! Finds where a missing field may have gone.

use std::collections::{BTreeMap, BTreeSet};

use ostar_bundle::Bundle;
use ostar_connectors::event::{Cell, Decoder, InputRows, Leaf, Row};
use ostar_method::profile::Tally;

use super::FieldLook;
use crate::config::nearest;

/// A field that is missing in a larger share of events, beyond training, may have been renamed.
const MISSING: f64 = 0.5;
/// Distance from training below which values are taken for those of the field.
const NEAR: f64 = 0.35;

/// Another value of the events that looks like the field.
pub(super) struct Found {
    /// As `events.fields` takes it.
    pub(super) path: String,
    /// Whether its values are like training's; else only its name is similar.
    pub(super) by_values: bool,
}

/// The value of the events that is most like a missing field in training, or else one with a similar name. Values that
/// other fields use are left out.
pub(super) fn search(
    bundle: &Bundle,
    decoder: &Decoder,
    look: &FieldLook,
    all: &[FieldLook],
    events: &[Vec<Leaf>],
) -> Option<Found> {
    if look.missing - look.training_missing.unwrap_or(0.0) < MISSING {
        return None;
    }
    let used: BTreeSet<String> = all
        .iter()
        .filter(|other| other.missing < MISSING)
        .flat_map(|other| [other.path.clone(), format!("fields.{}", other.path)])
        .collect();
    let mut values: BTreeMap<&str, Vec<&Cell<'static>>> = BTreeMap::new();
    for leaf in events.iter().flatten() {
        if !used.contains(&leaf.path) && leaf.cell != Cell::Missing {
            values.entry(&leaf.path).or_default().push(&leaf.cell);
        }
    }
    // Values that are as rare as the field would still be missing.
    values.retain(|_, cells| 2 * cells.len() > events.len());
    let by_values = values
        .iter()
        .filter_map(|(path, cells)| Some((distance(bundle, decoder, look, cells)?, *path)));
    let best = by_values.min_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((distance, path)) = best
        && distance < NEAR
    {
        return Some(Found {
            path: path.to_owned(),
            by_values: true,
        });
    }
    let names = values.keys().copied();
    let last_key = |path: &'_ str| {
        path.rsplit(['.', '/'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let keys: BTreeMap<String, &str> = names.map(|path| (last_key(path), path)).collect();
    let name = nearest(&look.name, keys.keys().map(String::as_str))?;
    Some(Found {
        path: keys[name].to_owned(),
        by_values: false,
    })
}

/// How far values are from the field in training, if it had them; `None` if it could not.
fn distance(
    bundle: &Bundle,
    decoder: &Decoder,
    look: &FieldLook,
    cells: &[&Cell<'static>],
) -> Option<f64> {
    let profile = bundle.inputs()?;
    let place = profile
        .fields
        .iter()
        .position(|field| field.name == look.name)?;
    let description = bundle.description();
    let mut rows = InputRows::new(&description.input, bundle.classes());
    for cell in cells {
        let row = Row::Fields(BTreeMap::from([(look.name.clone(), (*cell).clone())]));
        decoder.push_row(&row, &mut rows).ok()?;
    }
    let mut tally = Tally::default();
    tally.add(profile, rows.inputs(), rows.len());
    let training = description.training_proportions.as_ref();
    let reports = profile.compare(&tally, rows.len() as f64, training);
    let report = reports.get(place)?;
    Some(report.distance - report.noise_floor)
}
