//! What a world is made of: rows to train on, rows of the training period, rows to draw streams from.

use std::sync::Arc;

use ostar_engine::Generator;

use super::{gaussian::Gaussian, sets::RealSet};
use crate::task::Domain;

/// Most unlabelled rows of the training period.
pub(super) const REFERENCE_ROWS: usize = 20_000;
/// Rows to draw from, where they are made.
const POOL_ROWS: usize = 60_000;

/// Some rows of a domain.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) rows: Arc<Domain>,
    pub(super) numbers: Vec<usize>,
}

impl Pool {
    fn whole(rows: Domain) -> Self {
        let numbers = (0..rows.count()).collect();
        Self {
            rows: Arc::new(rows),
            numbers,
        }
    }

    pub(super) fn domain(&self) -> Domain {
        self.rows.select(&self.numbers)
    }
}

/// What a world is made of, before anything is trained.
pub(super) struct Material {
    pub(super) name: String,
    pub(super) classes: usize,
    pub(super) shares: Vec<f64>,
    pub(super) source: Domain,
    pub(super) reference: Pool,
    pub(super) pools: Vec<Pool>,
    pub(super) gaussian: Option<Gaussian>,
    pub(super) real: Option<Arc<RealSet>>,
}

impl Material {
    /// Classes of normal rows, as many as a stream needs.
    pub(super) fn gaussian(
        name: String,
        gaussian: Gaussian,
        shares: Vec<f64>,
        source_rows: usize,
        generator: &mut Generator,
    ) -> Self {
        let classes = shares.len();
        let even = vec![1.0 / classes as f64; classes];
        let other = gaussian.another(0.3 + 0.7 * generator.uniform(), generator);
        let mut source = gaussian.draw(source_rows, &shares, generator);
        // `fit` wants five rows of each class.
        for class in 0..classes {
            for _ in 0..5 {
                source.rows.extend(gaussian.row(class, generator));
                source.labels.push(class as u32);
            }
        }
        let reference = gaussian.draw(REFERENCE_ROWS, &shares, generator);
        let pools = [&gaussian, &other].map(|of| Pool::whole(of.draw(POOL_ROWS, &even, generator)));
        Self {
            name,
            classes,
            shares,
            source,
            reference: Pool::whole(reference),
            pools: pools.to_vec(),
            gaussian: Some(gaussian),
            real: None,
        }
    }

    /// A stream that comes as a whole.
    pub(super) fn given(
        name: String,
        [source, reference, stream]: [Domain; 3],
        classes: usize,
    ) -> Self {
        Self {
            name,
            classes,
            shares: source.proportions(classes),
            source,
            reference: Pool::whole(reference),
            pools: vec![Pool::whole(stream)],
            gaussian: None,
            real: None,
        }
    }

    /// Rows of a domain: some of them to train on, some for reference, the rest to draw from.
    pub(super) fn real(
        name: String,
        rows: Arc<Domain>,
        mut numbers: Vec<usize>,
        shares: Vec<f64>,
        source_rows: usize,
        generator: &mut Generator,
    ) -> Self {
        // Of a class that runs short more is kept for the stream.
        const OF_A_CLASS: [f64; 2] = [0.5, 0.3];
        generator.shuffle(&mut numbers);
        let classes = shares.len();
        let mut of_class = vec![Vec::new(); classes];
        for row in numbers {
            of_class[rows.labels[row] as usize].push(row);
        }
        let mut take = |most: usize, part: f64| {
            let present = of_class
                .iter()
                .zip(&shares)
                .filter(|(_, share)| **share > 0.0);
            let possible = present.map(|(rows, share)| part * rows.len() as f64 / share);
            let total = possible.fold(most as f64, f64::min);
            let mut taken = Vec::new();
            for (rows, share) in of_class.iter_mut().zip(&shares) {
                let keep = rows.len() - ((total * share) as usize).min(rows.len());
                taken.extend(rows.split_off(keep));
            }
            generator.shuffle(&mut taken);
            taken
        };
        let source = take(source_rows, OF_A_CLASS[0]);
        let reference = take(REFERENCE_ROWS, OF_A_CLASS[1]);
        Self {
            name,
            classes,
            shares,
            source: rows.select(&source),
            reference: Pool {
                rows: Arc::clone(&rows),
                numbers: reference,
            },
            pools: vec![Pool {
                rows,
                numbers: of_class.concat(),
            }],
            gaussian: None,
            real: None,
        }
    }
}
