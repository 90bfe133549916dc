//! Exact least squares on the simplex.

use nalgebra::{DMatrix, DVector};

use super::{LabelProportions, factor::Factor};

/// A gradient below this counts as 0: entries of the problem are at most 2.
const GRADIENT_TOLERANCE: f64 = 1e-13;

/// Steps of iterative refinement at the end; they win back the digits that the Gram matrix loses.
const REFINEMENTS: usize = 3;

/// The p on the simplex with the least ||q - M p||, M's columns being points like q.
///
/// With A = M - q 1', the task is the point of A's convex hull that is nearest to 0 (Wolfe 1976). For
/// u = s p the value of ||A u||^2 + (1'u - 1)^2, minimised over s, is ||A p||^2 / (1 + ||A p||^2), which
/// grows with ||A p||: so p is u / 1'u for the u >= 0 that minimises it, and Lawson and Hanson's
/// active-set method for that ends at the exact minimiser after finitely many steps. Columns enter the
/// active set only while they are independent of those in it, so M may be singular; the minimiser is
/// then one of many.
pub(crate) fn nearest_on_simplex(columns: &DMatrix<f64>, point: &[f64]) -> LabelProportions {
    let classes = columns.ncols();
    let target = DVector::from_column_slice(point);
    let mut shifted = columns.clone();
    shifted
        .column_iter_mut()
        .for_each(|mut column| column -= &target);
    let mut problem = Problem::new(shifted);
    if !problem.start_full() {
        problem.start_empty();
    }
    // Lawson and Hanson's method takes about one step a class; the bound is for rounding only.
    for _ in 0..10 * classes + 10 {
        problem.descend();
        if !problem.enter() {
            break;
        }
    }
    problem.refine();
    LabelProportions::rescaled(problem.solution.as_slice().to_vec())
}

/// min ||A u||^2 + (1'u - 1)^2 over u >= 0, as normal equations H u = 1.
struct Problem {
    shifted: DMatrix<f64>,
    gram: DMatrix<f64>,
    solution: DVector<f64>,
    /// Classes whose entry is free; the others' are 0. In the factor's order.
    free: Vec<usize>,
    factor: Factor,
    /// Classes that could not enter since the last that did.
    refused: Vec<bool>,
}

impl Problem {
    fn new(shifted: DMatrix<f64>) -> Self {
        let classes = shifted.ncols();
        let gram = shifted.tr_mul(&shifted).add_scalar(1.0);
        Self {
            shifted,
            gram,
            solution: DVector::zeros(classes),
            free: Vec::with_capacity(classes),
            factor: Factor::default(),
            refused: vec![false; classes],
        }
    }

    /// Starts with every class present, the usual outcome; false when their columns are dependent.
    fn start_full(&mut self) -> bool {
        let classes = self.gram.ncols();
        self.solution.fill(1.0 / classes as f64);
        (0..classes).all(|class| self.push(class))
    }

    fn start_empty(&mut self) {
        self.free.clear();
        self.factor = Factor::default();
        let diagonal = self.gram.diagonal();
        let nearest = diagonal.imin();
        self.solution.fill(0.0);
        self.solution[nearest] = 1.0 / diagonal[nearest];
        self.push(nearest);
    }

    fn push(&mut self, class: usize) -> bool {
        let row: Vec<f64> = self
            .free
            .iter()
            .map(|other| self.gram[(class, *other)])
            .collect();
        let entered = self.factor.push(&row, self.gram[(class, class)]);
        if entered {
            self.free.push(class);
        }
        entered
    }

    /// Goes to the least squares solution on the free classes, freezing at 0 each class that the way
    /// there would make negative.
    fn descend(&mut self) {
        loop {
            let goal = self.factor.solve(&vec![1.0; self.free.len()]);
            let mut step = 1.0;
            let mut blocking = None;
            for (place, (class, to)) in self.free.iter().zip(&goal).enumerate() {
                let from = self.solution[*class];
                if *to <= 0.0 {
                    // If `from` is not above `to`, both are 0 and the quotient would be NaN.
                    let reach = if from > *to { from / (from - to) } else { 0.0 };
                    if blocking.is_none() || reach < step {
                        (step, blocking) = (reach, Some(place));
                    }
                }
            }
            for (class, to) in self.free.iter().zip(&goal) {
                let from = self.solution[*class];
                // Rounding can put the blocking class just below 0.
                self.solution[*class] = (from + step * (to - from)).max(0.0);
            }
            match blocking {
                None => return,
                Some(place) => {
                    let class = self.free.remove(place);
                    self.solution[class] = 0.0;
                    self.factor.remove(place);
                }
            }
        }
    }

    /// Frees the class that promises the steepest descent; false when none does, which is optimality.
    fn enter(&mut self) -> bool {
        let gradient = self.gradient();
        self.refused.fill(false);
        loop {
            let candidate = (0..gradient.len())
                .filter(|class| !self.refused[*class] && !self.free.contains(class))
                .max_by(|a, b| gradient[*a].total_cmp(&gradient[*b]));
            match candidate {
                Some(class) if gradient[class] > GRADIENT_TOLERANCE => {
                    if self.push(class) && self.would_grow() {
                        return true;
                    }
                    self.refuse(class);
                }
                _ => return false,
            }
        }
    }

    /// Whether the class that entered last gets a share above 0; by rounding it may not.
    fn would_grow(&self) -> bool {
        let goal = self.factor.solve(&vec![1.0; self.free.len()]);
        goal.last().is_some_and(|entry| *entry > 0.0)
    }

    fn refuse(&mut self, class: usize) {
        self.refused[class] = true;
        if self.free.last() == Some(&class) {
            self.free.pop();
            self.factor.remove(self.free.len());
        }
    }

    /// 1 - H u, with A u formed first: more exact than the Gram matrix.
    fn gradient(&self) -> DVector<f64> {
        let residual = &self.shifted * &self.solution;
        let excess = 1.0 - self.solution.sum();
        self.shifted.tr_mul(&residual).map(|slope| excess - slope)
    }

    fn refine(&mut self) {
        for _ in 0..REFINEMENTS {
            let gradient = self.gradient();
            let remaining: Vec<f64> = self.free.iter().map(|class| gradient[*class]).collect();
            let correction = self.factor.solve(&remaining);
            for (class, change) in self.free.iter().zip(&correction) {
                self.solution[*class] = (self.solution[*class] + change).max(0.0);
            }
        }
    }
}

/// The nearest point of {w >= 0, d'w = 1} to `weights`, for d > 0: max(0, w - t d) with the t that meets
/// the equation, found exactly by going through the classes in the order in which they reach 0.
pub(crate) fn project(weights: &[f64], proportions: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let breakpoint = |class: usize| weights[class] / proportions[class];
    order.sort_by(|a, b| breakpoint(*b).total_cmp(&breakpoint(*a)));
    let (mut mass, mut square, mut shift) = (0.0, 0.0, f64::INFINITY);
    for class in order {
        // Classes from here on are at 0 when the shift lies beyond this class's breakpoint.
        if square > 0.0 && breakpoint(class) <= shift {
            break;
        }
        mass += proportions[class] * weights[class];
        square += proportions[class] * proportions[class];
        shift = (mass - 1.0) / square;
    }
    let projected = |(weight, proportion): (&f64, &f64)| (weight - shift * proportion).max(0.0);
    weights.iter().zip(proportions).map(projected).collect()
}
