//! What happens along a stream: shares that change, rows that are chosen, rows that are distorted.

use anyhow::Result;
use ostar_engine::Generator;

use super::{gaussian::weighted, material::Pool, world::World};
use crate::task::Domain;

/// Rows that a stream has at least, before a class without fresh rows ends it.
const LEAST_ROWS: usize = 5_000;
/// Deviation of near copies of made rows; real rows come again as they are.
const JITTER: f64 = 0.05;

/// From what shares and which of the world's pools rows are drawn.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    pub(super) shares: Vec<f64>,
    pub(super) pool: usize,
}

/// A stream of a world.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    pub(super) rows: usize,
    /// Rows before anything happens.
    pub(super) quiet: usize,
    /// In turn, `every` so many rows; none leaves shares as in training.
    pub(super) phases: Vec<Phase>,
    pub(super) every: usize,
    /// Whether shares move to the first phase little by little.
    pub(super) gradual: bool,
    /// Whether rows of the second pool come as they are, in their order.
    pub(super) in_order: bool,
    pub(super) twist: Twist,
    /// How often each event comes, nearly the same.
    pub(super) copies: usize,
}

/// What else happens to rows.
#[derive(Debug, Clone)]
pub(super) enum Twist {
    None,
    /// Rows of a pool are taken in this proportion: P(y given x) stays.
    Chosen(usize, Vec<f32>),
    /// Rows move, and their classes are drawn anew from P(y given x).
    Moved(Vec<f32>),
    /// Rows turn little by little, to this angle in radians.
    Turning(f64),
    /// A class moves by this difference of means.
    Line(u32, Vec<f32>),
}

impl Recipe {
    /// Nothing happens.
    pub(super) fn quiet(rows: usize) -> Self {
        Self {
            rows,
            quiet: 0,
            phases: Vec::new(),
            every: rows,
            gradual: false,
            in_order: false,
            twist: Twist::None,
            copies: 1,
        }
    }

    /// Shares and pool of a row.
    fn phase(&self, row: usize, training: &[f64]) -> (Vec<f64>, usize) {
        if row < self.quiet || self.phases.is_empty() {
            return (training.to_vec(), 0);
        }
        let number = (row - self.quiet) / self.every.max(1);
        let phase = &self.phases[number % self.phases.len()];
        if !self.gradual {
            return (phase.shares.clone(), phase.pool);
        }
        let progress = self.progress(row);
        let both = training.iter().zip(&phase.shares);
        let shares = both.map(|(from, to)| from + progress * (to - from));
        (shares.collect(), phase.pool)
    }

    fn progress(&self, row: usize) -> f64 {
        (row - self.quiet.min(row)) as f64 / (self.rows - self.quiet).max(1) as f64
    }

    pub(super) fn draw(&self, world: &World, generator: &mut Generator) -> Result<Domain> {
        let mut queues: Vec<Queues<'_>> = world
            .pools
            .iter()
            .map(|pool| Queues::new(pool, world.classes, generator))
            .collect();
        let mut stream = Domain {
            width: world.pools[0].rows.width,
            rows: Vec::new(),
            labels: Vec::new(),
        };
        while stream.count() < self.rows {
            let at = stream.count();
            let (shares, pool) = self.phase(at, &world.shares);
            let in_order = self.in_order && at >= self.quiet;
            let queues = &mut queues[pool];
            let row = if in_order {
                queues.next()
            } else {
                queues.of_class(weighted(&shares, generator), at < LEAST_ROWS)
            };
            let Some(row) = row else {
                break;
            };
            let is_left_out = match &self.twist {
                Twist::Chosen(of, weights) if *of == pool && at >= self.quiet => {
                    generator.uniform() >= f64::from(weights[row])
                }
                _ => false,
            };
            if is_left_out {
                continue;
            }
            let domain = &world.pools[pool].rows;
            let mut values = domain.row(row).to_vec();
            let mut label = domain.labels[row];
            if at >= self.quiet {
                self.distort(&mut values, &mut label, at, world, generator);
            }
            for copy in 0..self.copies {
                if copy > 0 && world.gaussian.is_some() {
                    let near = values
                        .iter()
                        .map(|v| v + (JITTER * generator.normal()) as f32);
                    stream.rows.extend(near);
                } else {
                    stream.rows.extend(&values);
                }
                stream.labels.push(label);
            }
        }
        Ok(stream.first(self.rows))
    }

    fn distort(
        &self,
        values: &mut [f32],
        label: &mut u32,
        row: usize,
        world: &World,
        generator: &mut Generator,
    ) {
        match &self.twist {
            Twist::None | Twist::Chosen(..) => {}
            Twist::Moved(by) => {
                values
                    .iter_mut()
                    .zip(by)
                    .for_each(|(value, by)| *value += by);
                if let Some(gaussian) = &world.gaussian {
                    let posterior = gaussian.posterior(values, &world.shares);
                    let posterior: Vec<f64> = posterior.iter().map(|p| f64::from(*p)).collect();
                    *label = weighted(&posterior, generator) as u32;
                }
            }
            Twist::Turning(angle) => {
                let (sine, cosine) = (angle * self.progress(row)).sin_cos();
                for pair in values.chunks_exact_mut(2) {
                    let (x, y) = (f64::from(pair[0]), f64::from(pair[1]));
                    pair[0] = (cosine * x - sine * y) as f32;
                    pair[1] = (sine * x + cosine * y) as f32;
                }
            }
            Twist::Line(class, by) => {
                if class == label {
                    values
                        .iter_mut()
                        .zip(by)
                        .for_each(|(value, by)| *value += by);
                }
            }
        }
    }
}

/// Rows of a pool that have not been drawn yet, by class.
struct Queues<'a> {
    pool: &'a Pool,
    of_class: Vec<Vec<usize>>,
    used: Vec<usize>,
    next: usize,
}

impl<'a> Queues<'a> {
    fn new(pool: &'a Pool, classes: usize, generator: &mut Generator) -> Self {
        let mut of_class = vec![Vec::new(); classes];
        for row in &pool.numbers {
            of_class[pool.rows.labels[*row] as usize].push(*row);
        }
        of_class.iter_mut().for_each(|rows| generator.shuffle(rows));
        Self {
            pool,
            used: vec![0; classes],
            of_class,
            next: 0,
        }
    }

    fn next(&mut self) -> Option<usize> {
        self.next += 1;
        self.pool.numbers.get(self.next - 1).copied()
    }

    /// A fresh row of a class, or one for the second time.
    fn of_class(&mut self, class: usize, again: bool) -> Option<usize> {
        let rows = &self.of_class[class];
        let used = &mut self.used[class];
        if *used >= rows.len() * if again { 2 } else { 1 } {
            return None;
        }
        *used += 1;
        Some(rows[(*used - 1) % rows.len()])
    }
}
