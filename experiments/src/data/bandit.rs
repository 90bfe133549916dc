//! Clicks on recommended clothes, in time order.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{arrays::Arrays, locate};
use crate::task::Domain;

/// Files of the sample: policy and campaign.
const FILES: [&str; 6] = [
    "random_all",
    "random_men",
    "random_women",
    "bts_all",
    "bts_men",
    "bts_women",
];
const ITEMS: usize = 80;
const POSITIONS: usize = 3;
/// Levels of each hashed user feature that get a column; the others share the last.
const LEVELS: usize = 10;

/// Impressions in the order in which they happened, with their times in milliseconds. Times are exact to about two
/// minutes. Class 1 is a click.
pub fn impressions(folder: &Path) -> Result<(Domain, Vec<i64>)> {
    let mut arrays = Arrays::open(&locate(folder, "open_bandit_60k")?)?;
    let mut rows: Vec<(i64, Vec<f32>, u32)> = Vec::new();
    for (number, file) in FILES.into_iter().enumerate() {
        let times = arrays.read(&format!("{file}_ts_ms"))?.values;
        let items = arrays.read(&format!("{file}_item"))?.values;
        let positions = arrays.read(&format!("{file}_position"))?.values;
        let users = arrays.read(&format!("{file}_user_feature"))?;
        let clicks = arrays.labels(&format!("{file}_y"))?;
        let features = users.shape.get(1).copied().unwrap_or(0);
        ensure!(
            times.len() == clicks.len() && items.len() == clicks.len() && features > 0,
            "open_bandit_60k.npz: {file} has {} times and {} clicks",
            times.len(),
            clicks.len()
        );
        for (row, click) in clicks.iter().enumerate() {
            let mut values = Vec::new();
            one_hot(number, FILES.len(), &mut values);
            one_hot(items[row] as usize, ITEMS, &mut values);
            one_hot(positions[row] as usize - 1, POSITIONS, &mut values);
            for level in &users.values[row * features..][..features] {
                one_hot(*level as usize, LEVELS, &mut values);
            }
            rows.push((times[row] as i64, values, *click));
        }
    }
    rows.sort_by_key(|(time, ..)| *time);
    let width = rows.first().map_or(1, |(_, values, _)| values.len());
    let mut domain = Domain {
        width,
        rows: Vec::with_capacity(rows.len() * width),
        labels: Vec::with_capacity(rows.len()),
    };
    let mut times = Vec::with_capacity(rows.len());
    for (time, values, click) in rows {
        times.push(time);
        domain.rows.extend(values);
        domain.labels.push(click);
    }
    Ok((domain, times))
}

fn one_hot(level: usize, levels: usize, values: &mut Vec<f32>) {
    let level = level.min(levels - 1);
    values.extend((0..levels).map(|other| f32::from(u8::from(other == level))));
}
