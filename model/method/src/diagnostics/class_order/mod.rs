//! Whether labelled rows fit the order in which the classes of a model's outputs are given.
//!
//! A list of probabilities does not say which of them is whose. The question is settled by how rows are ranked, class against
//! class, and every class counts alike: how common a class is among the rows or in training, and how sure the model is,
//! must not decide it. A model of 3 % of positives that never predicts one has an order, too.

mod better;
mod copies;
#[cfg(test)]
mod tests;

use ostar_engine::{Result, Rows, argmax, checks};
use serde::Serialize;

use self::{better::better_order, copies::without_copies};
use super::Auc;

/// Distance from chance, in standard errors, beyond which an order is refused or confirmed.
const DECISIVE: f64 = 3.0;

/// Logarithms are taken of at least this, so that one sure mistake does not outweigh all other rows.
const LEAST_PROBABILITY: f32 = f32::EPSILON;

/// Most names in a sentence.
const MOST_NAMED: usize = 10;

/// What labelled rows say about the order of the classes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrderCheck {
    /// Rows that were looked at. Copies count once.
    pub rows: usize,
    /// An order that fits the rows better, beyond chance; the given one is then wrong, or the model is.
    pub better: Option<BetterOrder>,
    /// Classes that may be in each other's place for all that the rows say: they are too few, or the model does not
    /// distinguish these classes. In the better order, if there is one.
    pub unchecked: Vec<usize>,
}

/// An order that fits better than the given one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BetterOrder {
    /// The class of each output.
    pub classes: Vec<usize>,
    /// How much better it fits, in standard errors.
    pub standard_errors: f64,
    /// Accuracy, or the AUC of two classes, in the given order.
    pub given: f64,
    /// The same in this order.
    pub found: f64,
}

/// Compares the given order, in which column k of `probabilities` is that of class k, with the others.
///
/// Two classes are compared by their AUC. Of more, an order is found on one half of the rows and judged on the other: the best
/// of all permutations would beat a weak model's right order by chance.
pub fn check_class_order(probabilities: Rows<'_>, labels: &[u32]) -> Result<OrderCheck> {
    let classes = probabilities.width();
    checks::length("labels", labels.len(), probabilities.count())?;
    checks::labels(labels, classes)?;
    let mut values = vec![0.0; probabilities.values().len()];
    probabilities.values().copy_f32(0, &mut values);
    let kept = without_copies(&values, labels, classes);
    let mut by_class = vec![Vec::new(); classes];
    for row in &kept {
        by_class[labels[*row] as usize].push(*row);
    }
    let log = |value: &f32| value.max(LEAST_PROBABILITY).ln();
    let rows = LogRows {
        classes,
        logs: values.iter().map(log).collect(),
        by_class,
    };
    let better = match classes {
        2 => reversed(&rows),
        _ => better_order(&rows).map(|(order, standard_errors)| {
            let accuracy = |order: Option<&[usize]>| accuracy(&values, labels, &kept, order);
            BetterOrder {
                given: accuracy(None),
                found: accuracy(Some(&order)),
                standard_errors,
                classes: order,
            }
        }),
    };
    let unchecked = match &better {
        Some(better) => unchecked(&rows.in_order(&better.classes)),
        None => unchecked(&rows),
    };
    Ok(OrderCheck {
        rows: kept.len(),
        better,
        unchecked,
    })
}

/// Labelled rows of logarithms of probabilities.
struct LogRows {
    classes: usize,
    logs: Vec<f32>,
    /// The numbers of each class's rows.
    by_class: Vec<Vec<usize>>,
}

impl LogRows {
    fn row(&self, number: usize) -> &[f32] {
        &self.logs[number * self.classes..][..self.classes]
    }

    /// The same rows with each output at the place of its class.
    fn in_order(&self, class_of_output: &[usize]) -> Self {
        let mut logs = self.logs.clone();
        let rows = logs.chunks_exact_mut(self.classes);
        for (row, own) in rows.zip(self.logs.chunks_exact(self.classes)) {
            for (class, log) in class_of_output.iter().zip(own) {
                row[*class] = *log;
            }
        }
        Self {
            classes: self.classes,
            logs,
            by_class: self.by_class.clone(),
        }
    }

    /// How well rows of `class` are distinguished from those of `other`.
    fn auc(&self, class: usize, other: usize) -> Option<Auc> {
        let margins = |of: usize| {
            let rows = self.by_class[of].iter().map(|number| self.row(*number));
            rows.map(move |row| (row[class] - row[other], of == class))
        };
        Auc::measure(margins(class).chain(margins(other)).collect())
    }
}

/// The order of two classes the other way round, if it fits better.
fn reversed(rows: &LogRows) -> Option<BetterOrder> {
    let auc = rows.auc(1, 0)?;
    (auc.standard_errors <= -DECISIVE).then(|| BetterOrder {
        classes: vec![1, 0],
        standard_errors: -auc.standard_errors,
        given: auc.area,
        found: 1.0 - auc.area,
    })
}

/// Classes with another one from which they are not distinguished.
fn unchecked(rows: &LogRows) -> Vec<usize> {
    let mut is_unchecked = vec![false; rows.classes];
    for class in 0..rows.classes {
        for other in 0..class {
            let auc = rows.auc(class, other);
            if auc.is_none_or(|auc| auc.standard_errors < DECISIVE) {
                // A class without enough rows says nothing against the others.
                let few = |class: usize| !can_be_judged(rows, class);
                is_unchecked[class] |= few(class) || !few(other);
                is_unchecked[other] |= few(other) || !few(class);
            }
        }
    }
    (0..rows.classes)
        .filter(|class| is_unchecked[*class])
        .collect()
}

/// Whether a class has enough rows to be distinguished from all others together by a perfect model.
fn can_be_judged(rows: &LogRows, class: usize) -> bool {
    let count = rows.by_class[class].len() as f64;
    let all: usize = rows.by_class.iter().map(Vec::len).sum();
    let others = all as f64 - count;
    // The standard errors of an AUC of 1.
    (3.0 * count * others / (all as f64 + 1.0)).sqrt() >= DECISIVE
}

fn accuracy(values: &[f32], labels: &[u32], kept: &[usize], order: Option<&[usize]>) -> f64 {
    let classes = values.len() / labels.len();
    let is_right = |row: &&usize| {
        let output = argmax(&values[**row * classes..][..classes]);
        order.map_or(output, |order| order[output]) == labels[**row] as usize
    };
    kept.iter().filter(is_right).count() as f64 / kept.len() as f64
}

impl OrderCheck {
    /// Whether the rows confirm the order of all classes.
    pub fn is_confirmed(&self) -> bool {
        self.better.is_none() && self.unchecked.is_empty()
    }

    /// Names of the better order, one for each output; `None` if there is none.
    pub fn better_names(&self, names: &[String]) -> Option<Vec<String>> {
        let classes = &self.better.as_ref()?.classes;
        Some(classes.iter().map(|class| names[*class].clone()).collect())
    }

    /// Says which order fits better and by how much; `None` if none does.
    pub fn contradiction(&self, names: &[String]) -> Option<String> {
        let better = self.better.as_ref()?;
        // Of many classes only those that change their places.
        let moves =
            |output: &usize| names.len() <= MOST_NAMED || better.classes[*output] != *output;
        let outputs: Vec<usize> = (0..names.len()).filter(moves).collect();
        let listed = |class_of: &dyn Fn(usize) -> usize| {
            let named = outputs
                .iter()
                .map(|output| names[class_of(*output)].as_str());
            list(named)
        };
        let (given, found) = (
            listed(&|output| output),
            listed(&|output| better.classes[output]),
        );
        let open = self
            .not_checked(names)
            .map_or_else(String::new, |open| format!("; in that order too, {open}"));
        let measure = if names.len() == 2 { "AUC" } else { "accuracy" };
        Some(format!(
            "the order of the classes is {given}, but {} labelled rows fit {found} better, by {:.1} standard errors \
             ({measure} {:.4}, in that order {:.4}){open}",
            self.rows, better.standard_errors, better.given, better.found
        ))
    }

    /// Says which classes may be in each other's place; `None` if the rows confirm the order of all.
    pub fn not_checked(&self, names: &[String]) -> Option<String> {
        if self.unchecked.is_empty() {
            return None;
        }
        let named = self.unchecked.iter().map(|class| names[*class].as_str());
        Some(format!(
            "order of {} not checked: {} labelled rows are too few of them, or the model does not distinguish them",
            list(named),
            self.rows
        ))
    }
}

/// Names with commas, the first of many.
fn list<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let shown: Vec<&str> = names.take(MOST_NAMED).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
