//! Whether the target's clusters, found without any classifier, still belong to the classes they are
//! taken for: a map that swapped two classes is invisible to the distance it minimises.

use ostar_engine::{Error, Result, checks};
use serde::{Deserialize, Serialize};

use super::{
    ClassMeans, count_rows, hungarian::optimal_assignment, means::group_means, squared_distance,
};

/// Lloyd's iterations mostly end by themselves, long before this.
const MOST_ITERATIONS: usize = 100;

/// The class that each class's cluster is nearest to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterAssignment {
    /// By class; `None` for a class without means.
    pub classes: Vec<Option<usize>>,
    /// Whether every class's cluster is its own.
    pub identity: bool,
}

/// k-means on the target `window`, rows of `width` numbers, from the `mapped` class means, and then the
/// optimal assignment of its centres to the `source` class means on squared distances. Classes
/// that lack either mean take no part.
pub fn assign_clusters(
    window: &[f32],
    mapped: &ClassMeans,
    source: &ClassMeans,
    width: usize,
) -> Result<ClusterAssignment> {
    let rows = count_rows("target window", window, width)?;
    checks::at_least_one_row("target window", rows)?;
    checks::length("mapped class means", mapped.len(), source.len())?;
    check_means("mapped class means", mapped, width)?;
    check_means("source class means", source, width)?;

    let mut known = Vec::new();
    let mut centres = Vec::new();
    let mut references = Vec::new();
    for (class, means) in mapped.iter().zip(source).enumerate() {
        if let (Some(start), Some(reference)) = means {
            known.push(class);
            centres.push(start.clone());
            references.push(reference);
        }
    }
    move_to_clusters(window, &mut centres, width);
    let costs: Vec<f64> = centres
        .iter()
        .flat_map(|centre| references.iter().map(|mean| squared_distance(centre, mean)))
        .collect();
    let columns = optimal_assignment(&costs, known.len());

    let mut classes = vec![None; source.len()];
    for (row, column) in columns.iter().enumerate() {
        classes[known[row]] = Some(known[*column]);
    }
    Ok(ClusterAssignment {
        identity: columns.into_iter().eq(0..known.len()),
        classes,
    })
}

fn check_means(what: &str, means: &ClassMeans, width: usize) -> Result<()> {
    for mean in means.iter().flatten() {
        checks::length(what, mean.len(), width)?;
        if let Some(value) = mean.iter().find(|value| !value.is_finite()) {
            let problem = format!("contain {value}, only finite numbers are accepted");
            return Err(Error::setting(what, problem));
        }
    }
    Ok(())
}

/// Lloyd's algorithm. A centre to which no row is nearest stays where it is.
pub(crate) fn move_to_clusters(window: &[f32], centres: &mut [Vec<f64>], width: usize) {
    let mut clusters = Vec::new();
    for _ in 0..MOST_ITERATIONS {
        let moved: Vec<usize> = window
            .chunks_exact(width)
            .filter_map(|row| nearest(row, centres))
            .collect();
        if moved == clusters {
            return;
        }
        clusters = moved;
        let means = group_means(window, clusters.iter().copied(), centres.len(), width);
        for (centre, mean) in centres.iter_mut().zip(means) {
            if let Some(mean) = mean {
                *centre = mean;
            }
        }
    }
}

fn nearest(row: &[f32], centres: &[Vec<f64>]) -> Option<usize> {
    let distances = centres.iter().map(|centre| squared_distance(row, centre));
    let smallest = distances.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
    smallest.map(|(centre, _)| centre)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Generator;

    const WIDTH: usize = 3;

    fn means(points: &[[f64; WIDTH]]) -> ClassMeans {
        points.iter().map(|point| Some(point.to_vec())).collect()
    }

    fn window(centres: &[[f64; WIDTH]], rows_each: usize) -> Vec<f32> {
        let mut generator = Generator::new(3);
        let mut window = Vec::new();
        for row in 0..centres.len() * rows_each {
            let centre = centres[row % centres.len()];
            window.extend(centre.map(|value| (value + 0.5 * generator.normal()) as f32));
        }
        window
    }

    const SOURCE: [[f64; WIDTH]; 3] = [[0.0, 0.0, 0.0], [6.0, 0.0, 0.0], [0.0, 6.0, 0.0]];

    #[test]
    fn clusters_that_moved_with_their_classes_keep_them() {
        let moved = SOURCE.map(|[x, y, z]| [x + 1.0, y - 1.0, z + 2.0]);
        let check =
            assign_clusters(&window(&moved, 100), &means(&moved), &means(&SOURCE), WIDTH).unwrap();
        assert_eq!(check.classes, [Some(0), Some(1), Some(2)]);
        assert!(check.identity);
    }

    #[test]
    fn a_map_that_swaps_two_classes_is_found_out() {
        let swapped = [SOURCE[0], SOURCE[2], SOURCE[1]];
        let window = window(&SOURCE, 100);
        let check = assign_clusters(&window, &means(&swapped), &means(&SOURCE), WIDTH).unwrap();
        assert_eq!(check.classes, [Some(0), Some(2), Some(1)]);
        assert!(!check.identity);
    }

    #[test]
    fn starts_that_are_off_end_in_the_clusters() {
        let starts = [[1.0, 1.0, 1.0], [4.0, 1.0, -1.0], [1.0, 4.0, 1.0]];
        let mut centres = starts.map(Vec::from);
        move_to_clusters(&window(&SOURCE, 400), &mut centres, WIDTH);
        for (centre, truth) in centres.iter().zip(SOURCE) {
            assert!(squared_distance(centre, &truth) < 0.02, "{centre:?}");
        }
    }

    #[test]
    fn an_empty_cluster_keeps_its_start() {
        let mut centres = [vec![0.0; 3], vec![100.0, 0.0, 0.0]];
        move_to_clusters(&window(&SOURCE[..1], 50), &mut centres, WIDTH);
        assert_eq!(centres[1], [100.0, 0.0, 0.0]);
    }

    #[test]
    fn classes_without_means_take_no_part() {
        let mut source = means(&SOURCE);
        source[1] = None;
        let window = window(&SOURCE, 20);
        let check = assign_clusters(&window, &means(&SOURCE), &source, WIDTH).unwrap();
        assert_eq!(check.classes, [Some(0), None, Some(2)]);
        assert!(check.identity);
    }

    #[test]
    fn an_empty_window_or_means_of_another_width_are_errors() {
        let source = means(&SOURCE);
        assert!(assign_clusters(&[], &source, &source, WIDTH).is_err());
        assert!(assign_clusters(&[0.0; 4], &source, &source, 2).is_err());
    }
}
