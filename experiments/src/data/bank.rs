//! Phone contacts of a bank, in date order.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{arrays::Arrays, locate};
use crate::task::Domain;

/// Length of the call: known only when the answer is, and nearly decides it.
const LEAK: &str = "duration";
/// Columns of `x_num`, in the file's order.
const NUMBERS: [&str; 10] = [
    "age",
    LEAK,
    "campaign",
    "pdays",
    "previous",
    "emp.var.rate",
    "cons.price.idx",
    "cons.conf.idx",
    "euribor3m",
    "nr.employed",
];

/// Reads all contacts. Numbers stay as they are, categories are one-hot encoded.
pub fn contacts(folder: &Path) -> Result<Domain> {
    let mut arrays = Arrays::open(&locate(folder, "bank_marketing")?)?;
    let (numbers, categories) = (arrays.read("x_num")?, arrays.read("x_cat")?);
    let labels = arrays.labels("y")?;
    let columns = categories.shape.get(1).copied().unwrap_or(0);
    ensure!(
        numbers.shape == [labels.len(), NUMBERS.len()]
            && categories.shape.first() == Some(&labels.len()),
        "bank_marketing.npz: x_num has shape {:?} and x_cat {:?} for {} labels",
        numbers.shape,
        categories.shape,
        labels.len()
    );
    let mut levels = vec![0; columns];
    for row in categories.values.chunks_exact(columns) {
        for (most, level) in levels.iter_mut().zip(row) {
            *most = (*most).max(*level as usize + 1);
        }
    }
    let kept = NUMBERS.iter().filter(|name| **name != LEAK).count();
    let width = kept + levels.iter().sum::<usize>();
    let mut rows = Vec::with_capacity(labels.len() * width);
    let pairs = numbers
        .values
        .chunks_exact(NUMBERS.len())
        .zip(categories.values.chunks_exact(columns));
    for (numbers, categories) in pairs {
        let numbers = numbers.iter().zip(NUMBERS);
        rows.extend(
            numbers
                .filter(|(_, name)| *name != LEAK)
                .map(|(value, _)| *value),
        );
        for (level, count) in categories.iter().zip(&levels) {
            rows.extend((0..*count).map(|other| f32::from(u8::from(other == *level as usize))));
        }
    }
    Ok(Domain {
        width,
        rows,
        labels,
    })
}
