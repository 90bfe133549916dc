//! Rows that were put in more than once.

use std::collections::HashMap;

use twox_hash::XxHash64;

/// What is known of all rows with the same probabilities.
struct Equal {
    first: usize,
    label: u32,
    rows: usize,
    has_other_labels: bool,
}

/// The numbers of the rows without copies of earlier ones, in order. A rare class is often repeated to make it common;
/// counted as independent, its copies would make chance look like certainty.
///
/// Copies have the label of the original. Where equal rows have different labels, the model gives few different rows (a
/// tree has one for each leaf, a model whose output was rounded to 0 and 1 one for each class): all of them count.
pub(super) fn without_copies(probabilities: &[f32], labels: &[u32], classes: usize) -> Vec<usize> {
    let mut known: HashMap<u64, Equal> = HashMap::new();
    let mut bytes = Vec::with_capacity(4 * classes);
    for (number, (row, label)) in probabilities.chunks_exact(classes).zip(labels).enumerate() {
        bytes.clear();
        bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
        let equal = known.entry(XxHash64::oneshot(0, &bytes)).or_insert(Equal {
            first: number,
            label: *label,
            rows: 0,
            has_other_labels: false,
        });
        equal.rows += 1;
        equal.has_other_labels |= equal.label != *label;
    }
    let repeated = known.values().filter(|equal| equal.rows > 1).count();
    let mixed = known.values().filter(|equal| equal.has_other_labels);
    let are_copies = mixed.count() * 10 <= repeated && known.len() > 2 * classes;
    if !are_copies {
        return (0..labels.len()).collect();
    }
    let mut kept: Vec<usize> = known.into_values().map(|equal| equal.first).collect();
    kept.sort_unstable();
    kept
}
