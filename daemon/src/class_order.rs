//! What to say of the order of a bundle's classes, in words.

use ostar_method::diagnostics::OrderCheck;

/// Names that are shown in an option that can be given as it is; more would fill the screen.
const MOST_GIVEN: usize = 50;

/// Says that another order fits the labels better, and what to do; `None` if none does.
pub(crate) fn wrong_order(check: &OrderCheck, classes: &[String]) -> Option<String> {
    let contradiction = check.contradiction(classes)?;
    let better = check.better_names(classes)?;
    let option = match better.len() {
        0..=MOST_GIVEN => format!("--classes {}", better.join(",")),
        _ => "--classes and the names in that order".to_owned(),
    };
    Some(format!(
        "{contradiction}; make the bundle again with {option}, or, if its order is right, check the labels: the model predicts \
         the opposite of them"
    ))
}

/// The same, or which classes' order the labels do not confirm, or that they confirm it.
pub(crate) fn describe_order(check: &OrderCheck, classes: &[String]) -> String {
    let problem = wrong_order(check, classes).or_else(|| check.not_checked(classes));
    problem.unwrap_or_else(|| "order of the classes: the labels confirm it".to_owned())
}
