//! How far the map moves each class, beside the room there is between classes.

use ostar_engine::{Result, checks};
use serde::{Deserialize, Serialize};

use super::{ClassMeans, class_means, count_rows, squared_distance};

/// Movement of a set of source rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Displacement {
    /// Mean ||phi(z) - z||^2 over the rows, in squared standardised units.
    pub cost: f64,
    /// The part of it that is apart from the movement of the class's mean: 0 for a class that is moved as
    /// a whole, large for one that is torn.
    pub deformation: f64,
    /// Squared distance of the class's source mean to the nearest other; `None` if there is no other.
    pub separation: Option<f64>,
    /// Cost over separation; `None` without a separation above 0.
    pub ratio: Option<f64>,
}

/// Movement of the source rows under the map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Movement {
    /// All rows alike, beside the smallest separation of any two classes.
    pub all: Displacement,
    /// One a class; `None` for a class without rows.
    pub classes: Vec<Option<Displacement>>,
}

/// Compares source latents, rows of `width` numbers, with where the map puts them.
pub fn movement(
    source: &[f32],
    mapped: &[f32],
    labels: &[u32],
    classes: usize,
    width: usize,
) -> Result<Movement> {
    let means = class_means(source, labels, classes, width)?;
    let mapped_rows = count_rows("mapped latents", mapped, width)?;
    checks::length("mapped latents", mapped_rows, labels.len())?;
    checks::at_least_one_row("latents", labels.len())?;

    let mut costs = vec![0.0; classes];
    let mut counts = vec![0.0; classes];
    let moves = source.chunks_exact(width).zip(mapped.chunks_exact(width));
    for ((from, to), label) in moves.zip(labels) {
        costs[*label as usize] += squared_distance(from, to);
        counts[*label as usize] += 1.0;
    }
    let separations: Vec<Option<f64>> = (0..classes)
        .map(|class| separation(&means, class))
        .collect();
    let smallest = separations.iter().flatten().copied().reduce(f64::min);
    let mapped_means = class_means(mapped, labels, classes, width)?;
    let mut deformations = 0.0;
    let mut by_class = Vec::with_capacity(classes);
    for class in 0..classes {
        let means = means[class].as_ref().zip(mapped_means[class].as_ref());
        by_class.push(means.map(|(from, to)| {
            let cost = costs[class] / counts[class];
            let deformation = (cost - squared_distance(from, to)).max(0.0);
            deformations += counts[class] * deformation;
            Displacement::new(cost, deformation, separations[class])
        }));
    }
    let mean = |sum: f64| sum / labels.len() as f64;
    let cost = mean(costs.iter().sum());
    Ok(Movement {
        all: Displacement::new(cost, mean(deformations), smallest),
        classes: by_class,
    })
}

/// Squared distance of a class's mean to the nearest other.
fn separation(means: &ClassMeans, class: usize) -> Option<f64> {
    let mean = means[class].as_ref()?;
    let others = means
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != class);
    others
        .filter_map(|(_, other)| Some(squared_distance(mean, other.as_ref()?)))
        .reduce(f64::min)
}

// === impl Movement ===

impl Movement {
    /// The class with the largest ratio, the first of equal ones, and that ratio; `None` if no class has one. One that is
    /// not a number counts as the largest.
    pub fn largest(&self) -> Option<(usize, f64)> {
        let classes = self.classes.iter().enumerate();
        let ratios = classes.filter_map(|(class, moved)| Some((class, (*moved)?.ratio?)));
        // NaN may have a sign, which would make it the smallest.
        let size = |(_, ratio): &(usize, f64)| ratio.abs();
        ratios.max_by(|left, right| {
            size(left)
                .total_cmp(&size(right))
                .then(right.0.cmp(&left.0))
        })
    }
}

// === impl Displacement ===

impl Displacement {
    fn new(cost: f64, deformation: f64, separation: Option<f64>) -> Self {
        let ratio = separation
            .filter(|room| *room > 0.0)
            .map(|room| cost / room);
        Self {
            cost,
            deformation,
            separation,
            ratio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_stand_beside_the_nearest_other_class_mean() {
        // Means (0, 0), (2, 0) and (2, 3); class 3 has no rows.
        let source = [-1.0, 0.0, 1.0, 0.0, 2.0, 0.0, 2.0, 3.0];
        let mapped = [-1.0, 1.0, 1.0, 0.0, 2.0, 0.0, 5.0, 3.0];
        let movement = movement(&source, &mapped, &[0, 0, 1, 2], 4, 2).unwrap();
        let displacement = |cost, deformation, room| Displacement {
            cost,
            deformation,
            separation: Some(room),
            ratio: Some(cost / room),
        };
        let classes = [
            Some(displacement(0.5, 0.25, 4.0)),
            Some(displacement(0.0, 0.0, 4.0)),
            Some(displacement(9.0, 0.0, 9.0)),
            None,
        ];
        assert_eq!(movement.classes, classes);
        assert_eq!(movement.all, displacement(2.5, 0.125, 4.0));
    }

    #[test]
    fn the_largest_move_is_that_of_the_class_with_the_largest_ratio() {
        let largest = |ratios: &[Option<f64>]| {
            let moved = |ratio: &Option<f64>| Some(Displacement::new((*ratio)?, 0.0, Some(1.0)));
            let movement = Movement {
                all: Displacement::new(1.0, 0.0, None),
                classes: ratios.iter().map(moved).collect(),
            };
            movement.largest()
        };
        assert_eq!(largest(&[Some(0.5), None, Some(4.0)]), Some((2, 4.0)));
        assert_eq!(
            largest(&[Some(2.0), Some(2.0)]),
            Some((0, 2.0)),
            "the first"
        );
        assert_eq!(largest(&[None, None]), None);
        // One that is not finite hides no other: it is the largest.
        let hidden = largest(&[Some(-f64::NAN), Some(2.0)]);
        assert_eq!(hidden.map(|(class, _)| class), Some(0));
    }

    #[test]
    fn a_ratio_needs_another_class_at_another_place() {
        let alone = movement(&[1.0, 2.0], &[1.0, 4.0], &[1, 1], 2, 1).unwrap();
        assert_eq!(alone.all.cost, 2.0);
        assert_eq!(alone.all.separation, None);
        let same_place = movement(&[1.0, 1.0], &[1.0, 1.0], &[0, 1], 2, 1).unwrap();
        assert_eq!(same_place.all.separation, Some(0.0));
        assert_eq!(same_place.all.ratio, None);
    }

    #[test]
    fn no_rows_or_unequal_rows_are_errors() {
        assert!(movement(&[], &[], &[], 2, 1).is_err());
        assert!(movement(&[1.0], &[1.0, 2.0], &[0], 2, 1).is_err());
    }
}
