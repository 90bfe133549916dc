//! The order of three and more classes that fits best, and whether it fits better than by chance.

use ostar_engine::Generator;

use super::{DECISIVE, LogRows};
use crate::diagnostics::optimal_assignment;

/// Where an exchange found on the first half gains less than so many standard errors there, it is not judged: exchanges of
/// classes that are not distinguished would only hide the others in noise.
const WORTH_JUDGING: f64 = 2.0;

/// Fewest rows, beyond one of each class, that a standard error is taken of.
const LEAST_FREEDOM: usize = 8;

/// How much better rows fit when classes are exchanged: the mean log-likelihood of a row, summed over these classes.
///
/// What a model's prior adds to a column cancels in the sum, because the same columns are taken from and added.
struct Gain {
    sum: f64,
    standard_error: f64,
    /// Rows beyond one of each class.
    freedom: usize,
}

impl Gain {
    fn exceeds(&self, standard_errors: f64) -> bool {
        // Rounding alone is no gain.
        self.sum > 1e-6 && self.sum >= standard_errors * self.standard_error
    }
}

/// The class of each output and how much better this order fits, in standard errors.
pub(super) fn better_order(rows: &LogRows) -> Option<(Vec<usize>, f64)> {
    let [found_on, judged_on] = halves(rows);
    let taking_part: Vec<usize> = (0..rows.classes)
        .filter(|class| !found_on[*class].is_empty() && !judged_on[*class].is_empty())
        .collect();
    let outputs = best_outputs(rows, &found_on, &taking_part);
    let worth_judging = |exchange: &Vec<usize>| {
        gain(rows, &found_on, exchange, &outputs).is_some_and(|gain| gain.exceeds(WORTH_JUDGING))
    };
    let exchanged: Vec<usize> = exchanges(&outputs)
        .into_iter()
        .filter(worth_judging)
        .flatten()
        .collect();
    let gain = gain(rows, &judged_on, &exchanged, &outputs)?;
    if gain.freedom < LEAST_FREEDOM || !gain.exceeds(DECISIVE) {
        return None;
    }
    let mut classes: Vec<usize> = (0..rows.classes).collect();
    for class in exchanged {
        classes[outputs[class]] = class;
    }
    Some((classes, gain.sum / gain.standard_error.max(1e-9)))
}

/// Each class's rows in two halves, drawn at random whatever their order; of an odd number the second half has more.
fn halves(rows: &LogRows) -> [Vec<Vec<usize>>; 2] {
    let mut generator = Generator::new(0);
    let mut halves = [Vec::new(), Vec::new()];
    for numbers in &rows.by_class {
        let mut numbers = numbers.clone();
        generator.shuffle(&mut numbers);
        let (first, second) = numbers.split_at(numbers.len() / 2);
        halves[0].push(first.to_vec());
        halves[1].push(second.to_vec());
    }
    halves
}

/// For each class the output that fits best, each taken once. Classes that take no part keep theirs.
fn best_outputs(rows: &LogRows, half: &[Vec<usize>], taking_part: &[usize]) -> Vec<usize> {
    let size = taking_part.len();
    let mut costs = Vec::with_capacity(size * size);
    for class in taking_part {
        let numbers = &half[*class];
        let scale = -1.0 / numbers.len() as f64;
        costs.extend(taking_part.iter().map(|output| {
            let logs = numbers
                .iter()
                .map(|number| f64::from(rows.row(*number)[*output]));
            scale * logs.sum::<f64>()
        }));
    }
    // Without the columns' means the solver has little to do: most classes find their own output cheapest.
    for column in 0..size {
        let mean = (0..size).map(|row| costs[row * size + column]).sum::<f64>() / size as f64;
        (0..size).for_each(|row| costs[row * size + column] -= mean);
    }
    let mut outputs: Vec<usize> = (0..rows.classes).collect();
    for (row, column) in optimal_assignment(&costs, size).into_iter().enumerate() {
        outputs[taking_part[row]] = taking_part[column];
    }
    outputs
}

/// Sets of classes that exchange outputs among themselves: the cycles of the permutation.
fn exchanges(outputs: &[usize]) -> Vec<Vec<usize>> {
    let mut is_done = vec![false; outputs.len()];
    let mut exchanges = Vec::new();
    for start in 0..outputs.len() {
        let (mut cycle, mut class) = (Vec::new(), start);
        while !is_done[class] {
            is_done[class] = true;
            cycle.push(class);
            class = outputs[class];
        }
        if cycle.len() > 1 {
            exchanges.push(cycle);
        }
    }
    exchanges
}

/// What half of the rows gains when `classes` exchange their outputs; `None` if nothing can be said of its error.
fn gain(rows: &LogRows, half: &[Vec<usize>], classes: &[usize], outputs: &[usize]) -> Option<Gain> {
    // Of each class: the number of rows, their mean gain, the squares around it.
    let moments: Vec<(f64, f64, f64)> = classes
        .iter()
        .map(|class| {
            let gained = half[*class].iter().map(|number| {
                let row = rows.row(*number);
                f64::from(row[outputs[*class]] - row[*class])
            });
            let count = half[*class].len() as f64;
            let mean = gained.clone().sum::<f64>() / count;
            (count, mean, gained.map(|gain| (gain - mean).powi(2)).sum())
        })
        .collect();
    let freedom: f64 = moments.iter().map(|(count, ..)| count - 1.0).sum();
    if freedom < 1.0 {
        return None;
    }
    let pooled = moments.iter().map(|(.., squares)| squares).sum::<f64>() / freedom;
    // A few rows that happen to agree are no proof that all would: the variance is at least that of all classes.
    let variance = |(count, _, squares): &(f64, f64, f64)| {
        let own = if *count > 1.0 {
            squares / (count - 1.0)
        } else {
            0.0
        };
        own.max(pooled) / count
    };
    Some(Gain {
        sum: moments.iter().map(|(_, mean, _)| mean).sum(),
        standard_error: moments.iter().map(variance).sum::<f64>().sqrt(),
        freedom: freedom as usize,
    })
}
