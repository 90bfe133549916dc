//! Measures a profile on training rows.

use std::collections::BTreeMap;

use ostar_engine::{FieldRows, Inputs, inputs::is_missing};

use super::{
    BINS, FieldProfile, FieldValues, InputColumn, InputProfile, MISSING, MOST_CLASSES, MOST_FIELDS,
    MOST_TOKENS, UNKNOWN, tally::FieldTally,
};

impl InputProfile {
    /// The profile of checked training rows. `None` without columns: nobody could repair latents, or what a black box
    /// gives.
    pub fn measure(
        columns: Vec<InputColumn>,
        inputs: &Inputs<'_>,
        labels: &[u32],
        classes: usize,
    ) -> Option<Self> {
        if columns.is_empty() || labels.is_empty() {
            return None;
        }
        let groups = if classes > MOST_CLASSES { 1 } else { classes };
        let group = |row: usize| if groups == 1 { 0 } else { labels[row] as usize };
        let mut class_rows = vec![0; groups];
        (0..labels.len()).for_each(|row| class_rows[group(row)] += 1);
        let (mut number, mut bag) = (0, 0);
        let mut fields = Vec::new();
        for InputColumn { name, scale } in columns.into_iter().take(MOST_FIELDS) {
            let (values, shares) = if let Some(scale) = scale {
                number += 1;
                let column = column(inputs, number - 1, labels.len());
                let values = range(&column, scale);
                let shares = number_shares(&values, &column, groups, group);
                (values, shares)
            } else {
                let Inputs::Fields(rows) = inputs else {
                    return None;
                };
                bag += 1;
                token_profile(rows, bag - 1, labels.len(), groups, group)
            };
            fields.push(FieldProfile {
                name,
                values,
                shares: to_shares(shares, &class_rows),
            });
        }
        Some(Self {
            rows: labels.len(),
            class_rows,
            fields,
        })
    }
}

fn column(inputs: &Inputs<'_>, number: usize, count: usize) -> Vec<f32> {
    // Adding 0 turns -0, which stands for a missing field, into 0; adding -0 changes nothing.
    let (width, values, dense) = match inputs {
        Inputs::Dense(rows) => (rows.width(), rows.values(), 0.0),
        Inputs::Fields(rows) => (rows.numbers.len() / count, rows.numbers, -0.0),
    };
    (0..count)
        .map(|row| values.get(row * width + number) as f32 + dense)
        .collect()
}

/// The range of a column and bins of about the same share.
fn range(column: &[f32], (mean, deviation): (f64, f64)) -> FieldValues {
    let mut sorted: Vec<f32> = column.iter().copied().filter(|v| !is_missing(*v)).collect();
    sorted.sort_by(f32::total_cmp);
    // A field that was always missing: every value is new.
    let lowest = sorted.first().copied().unwrap_or(f32::MAX);
    let highest = sorted.last().copied().unwrap_or(f32::MIN);
    let mut edges: Vec<f32> = (1..BINS)
        .filter_map(|bin| sorted.get(bin * sorted.len() / BINS).copied())
        .filter(|edge| *edge < highest)
        .collect();
    edges.dedup();
    let mut values = FieldValues::Numbers {
        deviation,
        mean,
        lowest,
        highest,
        edges,
        logarithm: None,
    };
    let mut tally = FieldTally {
        cells: vec![0.0; values.cells()],
        ..FieldTally::default()
    };
    tally.add_numbers(&values, column.iter().copied());
    if let FieldValues::Numbers { logarithm, .. } = &mut values {
        *logarithm = tally.logarithm();
    }
    values
}

fn number_shares(
    values: &FieldValues,
    column: &[f32],
    groups: usize,
    group: impl Fn(usize) -> usize,
) -> Vec<Vec<f64>> {
    let empty = FieldTally {
        cells: vec![0.0; values.cells()],
        ..FieldTally::default()
    };
    let mut tallies = vec![empty; groups];
    for (row, value) in column.iter().enumerate() {
        tallies[group(row)].add_numbers(values, std::iter::once(*value));
    }
    tallies.into_iter().map(|tally| tally.cells).collect()
}

/// Tokens of a bag field. A token that occurs once counts as unknown: without its row it would be, and so will the next
/// rows' share of new tokens.
fn token_profile(
    rows: &FieldRows<'_>,
    bag: usize,
    count: usize,
    groups: usize,
    group: impl Fn(usize) -> usize,
) -> (FieldValues, Vec<Vec<f64>>) {
    let bags = (rows.offsets.len() - 1) / count;
    let bag_of = |row: usize| rows.bag(row * bags + bag);
    let mut occurrences: BTreeMap<u32, usize> = BTreeMap::new();
    for token in (0..count).flat_map(bag_of) {
        *occurrences.entry(*token).or_default() += 1;
    }
    let mut by_count: Vec<(usize, u32)> = occurrences.iter().map(|(t, n)| (*n, *t)).collect();
    by_count.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let repeated = by_count.iter().filter(|(occurs, _)| *occurs > 1);
    let common: Vec<u32> = repeated.take(BINS).map(|(_, token)| *token).collect();
    let known: Option<Vec<u32>> =
        (occurrences.len() <= MOST_TOKENS).then(|| occurrences.keys().copied().collect());
    let mut cells = vec![vec![0.0; 3 + common.len()]; groups];
    for row in 0..count {
        let cells = &mut cells[group(row)];
        let tokens = bag_of(row);
        if tokens.is_empty() {
            cells[MISSING] += 1.0;
        }
        for token in tokens {
            let cell = match (&known, occurrences[token]) {
                (Some(_), 1) => UNKNOWN,
                _ => FieldValues::cell_of_token(&common, known.as_deref(), *token),
            };
            cells[cell] += 1.0 / tokens.len() as f64;
        }
    }
    (FieldValues::Tokens { common, known }, cells)
}

fn to_shares(counts: Vec<Vec<f64>>, class_rows: &[usize]) -> Vec<Vec<f32>> {
    let shares = |(cells, rows): (Vec<f64>, &usize)| {
        let rows = (*rows).max(1) as f64;
        let shares = cells.into_iter();
        shares
            .map(|count| (count / rows).clamp(0.0, 1.0) as f32)
            .collect()
    };
    counts.into_iter().zip(class_rows).map(shares).collect()
}
