//! Tables with named segments and a training period, as `generate_streams.py` writes them.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{arrays::Arrays, locate};
use crate::task::Domain;

/// Rows in time order.
#[derive(Debug)]
pub struct Table {
    /// Numbers and one-hot codes with their classes.
    pub rows: Domain,
    /// For every column that names segments the code of each row.
    pub codes: Vec<Vec<u8>>,
    /// Whether a row comes after the training period.
    pub later: Vec<bool>,
    /// A given model's probability of the second class; empty without one.
    pub scores: Vec<f32>,
}

impl Table {
    /// Reads `NAME.npz`.
    pub fn read(folder: &Path, name: &str) -> Result<Self> {
        let mut arrays = Arrays::open(&locate(folder, name)?)?;
        let (rows, codes) = (arrays.read("x")?, arrays.read("codes")?);
        let (labels, later) = (arrays.labels("y")?, arrays.labels("part")?);
        let count = labels.len();
        let is_table = |shape: &[usize]| shape.len() == 2 && shape[0] == count && shape[1] > 0;
        ensure!(
            is_table(&rows.shape) && is_table(&codes.shape) && later.len() == count,
            "{name}.npz: x has shape {:?}, codes {:?} and part {} numbers for {count} labels",
            rows.shape,
            codes.shape,
            later.len()
        );
        let scores = if arrays.names().iter().any(|known| known == "score") {
            arrays.read("score")?.values
        } else {
            Vec::new()
        };
        let columns = codes.shape[1];
        let column = |column: usize| {
            let of_rows = codes.values.chunks_exact(columns);
            of_rows.map(|row| row[column] as u8).collect()
        };
        Ok(Self {
            rows: Domain {
                width: rows.shape[1],
                rows: rows.values,
                labels,
            },
            codes: (0..columns).map(column).collect(),
            later: later.iter().map(|part| *part > 0).collect(),
            scores,
        })
    }
}
