//! Batches of both domains, each drawn without replacement and reshuffled when it runs out.

use anyhow::Result;
use ostar_engine::{Generator, Inputs, Rows, engine::RawBatch};
use serde::{Deserialize, Serialize};

use crate::task::{Domain, Task};

/// Draws row numbers; none comes again before the deck is reshuffled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Deck {
    numbers: Vec<u32>,
    next: usize,
}

/// The rows of a batch of both domains, copied into one place.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    source: Vec<f32>,
    labels: Vec<u32>,
    target: Vec<f32>,
    width: usize,
}

/// Row numbers of a batch in both domains.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) source: Vec<u32>,
    pub(super) target: Vec<u32>,
}

/// A deck of row numbers for each domain.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Batches {
    source: Deck,
    target: Deck,
    batch: usize,
}

impl Deck {
    fn new(count: usize) -> Self {
        Self {
            numbers: (0..count as u32).collect(),
            next: count,
        }
    }

    fn draw(&mut self, count: usize, generator: &mut Generator) -> Vec<u32> {
        if self.next + count > self.numbers.len() {
            generator.shuffle(&mut self.numbers);
            self.next = 0;
        }
        self.next += count;
        self.numbers[self.next - count..self.next].to_vec()
    }
}

impl Batches {
    pub(super) fn new(task: &Task, batch: usize) -> Self {
        Self {
            source: Deck::new(task.source.count()),
            target: Deck::new(task.target.count()),
            batch,
        }
    }

    pub(super) fn draw(&mut self, generator: &mut Generator) -> Numbers {
        Numbers {
            source: self.source.draw(self.batch, generator),
            target: self.target.draw(self.batch, generator),
        }
    }
}

impl Gathered {
    pub(super) fn gather(&mut self, task: &Task, numbers: &Numbers) {
        self.width = task.source.width;
        copy(&task.source, &numbers.source, &mut self.source);
        copy(&task.target, &numbers.target, &mut self.target);
        self.labels.clear();
        let labels = numbers.source.iter();
        self.labels
            .extend(labels.map(|number| task.source.labels[*number as usize]));
    }

    pub(super) fn borrow(&self) -> Result<RawBatch<'_>> {
        Ok(RawBatch {
            source: Inputs::Dense(Rows::new(&self.source[..], self.width)?),
            labels: &self.labels,
            target: Inputs::Dense(Rows::new(&self.target[..], self.width)?),
        })
    }

    pub(super) fn labels(&self) -> &[u32] {
        &self.labels
    }
}

fn copy(domain: &Domain, numbers: &[u32], to: &mut Vec<f32>) {
    to.clear();
    for number in numbers {
        to.extend_from_slice(domain.row(*number as usize));
    }
}
