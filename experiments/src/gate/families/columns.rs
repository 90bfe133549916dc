//! Fewer columns of real rows: as many as a model needs, or as few as make it weak.

use ostar_engine::Generator;

use crate::task::Domain;

/// Columns that mails and reviews are folded into.
const FOLDED: usize = 512;

/// Columns added up modulo [`FOLDED`]; logarithms of counts stay what they are where words do not meet.
pub(super) fn fold(domain: &Domain) -> Domain {
    let mut rows = vec![0.0; domain.count() * FOLDED];
    for row in 0..domain.count() {
        let to = &mut rows[row * FOLDED..(row + 1) * FOLDED];
        for (column, value) in domain.row(row).iter().enumerate() {
            to[column % FOLDED] += value;
        }
    }
    with_rows(domain, rows, FOLDED)
}

/// The columns with the largest sums.
pub(super) fn common_words(parts: &[Domain]) -> Vec<Domain> {
    let width = parts[0].width;
    let mut sums = vec![0.0f64; width];
    for row in parts.iter().flat_map(|part| part.rows.chunks_exact(width)) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
    }
    let mut order: Vec<usize> = (0..width).collect();
    order.sort_by(|left, right| sums[*right].total_cmp(&sums[*left]));
    order.truncate(FOLDED);
    let of = |part: &Domain| columns_of(part, &order);
    parts.iter().map(of).collect()
}

/// Some columns of all rows.
pub(super) fn columns_of(domain: &Domain, columns: &[usize]) -> Domain {
    let rows = domain.rows.chunks_exact(domain.width);
    let kept = rows.flat_map(|row| columns.iter().map(|column| row[*column]));
    with_rows(domain, kept.collect(), columns.len())
}

fn with_rows(domain: &Domain, rows: Vec<f32>, width: usize) -> Domain {
    Domain {
        width,
        rows,
        labels: domain.labels.clone(),
    }
}

/// Images of half the side: the mean of four pixels each.
pub(super) fn shrunk(images: &Domain) -> Domain {
    let side = images.width.isqrt();
    let half = side / 2;
    let mut rows = Vec::with_capacity(images.count() * half * half);
    for image in images.rows.chunks_exact(images.width) {
        for place in 0..half * half {
            let corner = 2 * (place / half) * side + 2 * (place % half);
            let four = [corner, corner + 1, corner + side, corner + side + 1];
            rows.push(four.iter().map(|pixel| image[*pixel]).sum::<f32>() / 4.0);
        }
    }
    with_rows(images, rows, half * half)
}

/// The first of the columns in random order with which a classifier of two classes by class means is right often enough.
pub(super) fn few_columns(
    rows: &Domain,
    numbers: &[usize],
    target: f64,
    generator: &mut Generator,
) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..rows.width).collect();
    generator.shuffle(&mut columns);
    let probes: Vec<usize> = (0..4_000)
        .map(|_| numbers[generator.below(numbers.len())])
        .collect();
    // Half of them measure the means, the others the classifier.
    let (measured, tried) = probes.split_at(probes.len() / 2);
    let moments = |column: usize, class: Option<u32>| {
        let values: Vec<f64> = measured
            .iter()
            .filter(|row| class.is_none_or(|class| rows.labels[**row] == class))
            .map(|row| f64::from(rows.row(*row)[column]))
            .collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (mean, square / values.len().max(1) as f64)
    };
    let mut sums = vec![0.0; tried.len()];
    for (place, column) in columns.iter().enumerate() {
        let (zero, one) = (moments(*column, Some(0)).0, moments(*column, Some(1)).0);
        let variance = moments(*column, None).1.max(1e-6);
        for (sum, row) in sums.iter_mut().zip(tried) {
            let value = f64::from(rows.row(*row)[*column]);
            *sum += (value - f64::midpoint(zero, one)) * (one - zero) / variance;
        }
        // Recall of each class: shares do not matter.
        let recall = |class: u32| {
            let of_class = || (0..tried.len()).filter(|t| rows.labels[tried[*t]] == class);
            let right = of_class()
                .filter(|t| (sums[*t] > 0.0) == (class == 1))
                .count();
            right as f64 / of_class().count().max(1) as f64
        };
        if f64::midpoint(recall(0), recall(1)) >= target || place + 1 == 256 {
            columns.truncate(place + 1);
            break;
        }
    }
    columns
}
