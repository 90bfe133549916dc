//! The Enron spam data, one domain an inbox.

use std::path::Path;

use anyhow::{Result, ensure};

use super::{arrays::Arrays, features::sparse_rows, locate};
use crate::task::Domain;

/// Buckets that hashed words are folded into.
const WIDTH: usize = 1_024;

/// Reads the six inboxes, each in the order of `stream_q`. In order of dates ham and spam would hardly overlap.
pub fn inboxes(folder: &Path) -> Result<Vec<Domain>> {
    let mut arrays = Arrays::open(&locate(folder, "enron_spam")?)?;
    let (starts, columns, counts) = (
        arrays.read("indptr")?.values,
        arrays.read("indices")?.values,
        arrays.read("counts")?.values,
    );
    let all = Domain {
        width: WIDTH,
        rows: sparse_rows(&starts, &columns, &counts, WIDTH)?,
        labels: arrays.labels("y")?,
    };
    let inboxes = arrays.labels("domain")?;
    let places = arrays.read("stream_q")?.values;
    ensure!(
        all.rows.len() == all.count() * WIDTH
            && inboxes.len() == all.count()
            && places.len() == all.count(),
        "enron_spam.npz: expected as many rows as labels, domains and places"
    );
    let of_inbox = |inbox: u32| {
        let numbers = (0..all.count()).filter(|number| inboxes[*number] == inbox);
        let mut numbers: Vec<usize> = numbers.collect();
        numbers.sort_by(|left, right| places[*left].total_cmp(&places[*right]));
        all.select(&numbers)
    };
    Ok((0..6).map(of_inbox).collect())
}
