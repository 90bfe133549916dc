//! Optimal assignment, exactly, in cubic time (the Hungarian method with row and column prices).

/// The column given to each row of a `size` x `size` matrix of finite costs, so that their sum is least.
///
/// # Panics
/// When `costs` has another size.
pub fn optimal_assignment(costs: &[f64], size: usize) -> Vec<usize> {
    assert_eq!(costs.len(), size * size, "a square matrix of costs");
    // One column more than the matrix has: where a new row stands until it is given a real one.
    let outside = size;
    let mut row_of_column: Vec<Option<usize>> = vec![None; size + 1];
    let mut row_prices = vec![0.0; size];
    let mut column_prices = vec![0.0; size + 1];
    for new_row in 0..size {
        row_of_column[outside] = Some(new_row);
        let mut slack = vec![f64::INFINITY; size];
        let mut came_from = vec![outside; size];
        let mut reached = vec![false; size + 1];
        let mut column = outside;
        // Grows a tree of tight edges until it reaches a free column.
        while let Some(row) = row_of_column[column] {
            reached[column] = true;
            let (mut step, mut nearest) = (f64::INFINITY, outside);
            for other in (0..size).filter(|other| !reached[*other]) {
                let reduced = costs[row * size + other] - row_prices[row] - column_prices[other];
                if reduced < slack[other] {
                    slack[other] = reduced;
                    came_from[other] = column;
                }
                if slack[other] < step {
                    step = slack[other];
                    nearest = other;
                }
            }
            for other in 0..=size {
                match row_of_column[other].filter(|_| reached[other]) {
                    Some(row) => {
                        row_prices[row] += step;
                        column_prices[other] -= step;
                    }
                    None if other < size => slack[other] -= step,
                    None => {}
                }
            }
            column = nearest;
        }
        while column != outside {
            row_of_column[column] = row_of_column[came_from[column]];
            column = came_from[column];
        }
    }
    let mut column_of_row = vec![0; size];
    for (column, row) in row_of_column[..size].iter().enumerate() {
        if let Some(row) = row {
            column_of_row[*row] = column;
        }
    }
    column_of_row
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The least sum over all permutations of the columns that are left.
    fn brute_force(costs: &[f64], size: usize, row: usize, taken: &mut Vec<usize>) -> f64 {
        if row == size {
            return 0.0;
        }
        let mut best = f64::INFINITY;
        for column in 0..size {
            if !taken.contains(&column) {
                taken.push(column);
                let rest = brute_force(costs, size, row + 1, taken);
                best = best.min(costs[row * size + column] + rest);
                taken.pop();
            }
        }
        best
    }

    proptest! {
        #[test]
        fn no_permutation_is_cheaper(
            (size, costs) in (0usize..=6).prop_flat_map(|size| {
                // Few distinct costs make ties.
                let cost = prop_oneof![-5.0..5.0f64, (0..3i32).prop_map(f64::from)];
                (Just(size), prop::collection::vec(cost, size * size))
            })
        ) {
            let columns = optimal_assignment(&costs, size);
            let mut sorted = columns.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..size), "not a permutation: {columns:?}");
            let sum: f64 = columns.iter().enumerate().map(|(row, c)| costs[row * size + c]).sum();
            let least = brute_force(&costs, size, 0, &mut Vec::new());
            prop_assert!((sum - least).abs() < 1e-9, "{sum}, least {least}");
        }
    }
}
