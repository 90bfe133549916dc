//! Which rows are held out.

use ostar_engine::{Error, Generator, Result};

/// Rows that a class must have: of fewer, a held-out fifth would be no row.
const LEAST_ROWS: usize = 5;

/// Training and held-out rows, split in the same ratio within every class.
#[derive(Debug)]
pub(crate) struct Split {
    /// Rows to train on, in order.
    pub(crate) training: Vec<u32>,
    pub(crate) held_out: Vec<u32>,
}

impl Split {
    /// Draws `share` of every class's rows, at least one of them and not all.
    pub(crate) fn draw(
        labels: &[u32],
        classes: &[String],
        share: f64,
        generator: &mut Generator,
    ) -> Result<Self> {
        let mut by_class = vec![Vec::new(); classes.len()];
        for (row, label) in labels.iter().enumerate() {
            by_class[*label as usize].push(row as u32);
        }
        let (mut training, mut held_out) = (Vec::new(), Vec::new());
        for (class, mut rows) in by_class.into_iter().enumerate() {
            if rows.len() < LEAST_ROWS {
                return Err(Error::setting(
                    "labels",
                    format!(
                        "class {class} ({:?}) has {} rows, expected at least {LEAST_ROWS} to train on and to hold out",
                        classes[class],
                        rows.len()
                    ),
                ));
            }
            generator.shuffle(&mut rows);
            let count = (share * rows.len() as f64).round() as usize;
            let (out, rest) = rows.split_at(count.clamp(1, rows.len() - 1));
            held_out.extend_from_slice(out);
            training.extend_from_slice(rest);
        }
        training.sort_unstable();
        held_out.sort_unstable();
        Ok(Self { training, held_out })
    }

    /// For every row whether it is held out.
    pub(crate) fn is_held_out(&self) -> Vec<bool> {
        let mut is_held_out = vec![false; self.training.len() + self.held_out.len()];
        for row in &self.held_out {
            is_held_out[*row as usize] = true;
        }
        is_held_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_split_in_the_same_share_and_no_row_is_lost() {
        let labels: Vec<u32> = (0..110).map(|row| u32::from(row % 11 == 0)).collect();
        let classes = ["a".to_owned(), "b".to_owned()];
        let split = Split::draw(&labels, &classes, 0.2, &mut Generator::new(1)).unwrap();
        let of = |class: u32| {
            let held_out = split.held_out.iter();
            held_out
                .filter(|row| labels[**row as usize] == class)
                .count()
        };
        assert_eq!((of(0), of(1)), (20, 2));
        let mut all = [split.training.clone(), split.held_out.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..110).collect::<Vec<u32>>());
        assert_eq!(split.is_held_out().iter().filter(|is| **is).count(), 22);
    }
}
