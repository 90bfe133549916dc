//! The numbers of the paper's tables, from `paper.csv`.

use crate::{
    data::digits::Setting,
    method::{Method, Stage},
};

const TABLES: &str = include_str!("../../paper.csv");

/// The value of one cell; `None` if the paper has no such cell.
pub(super) fn value(table: &str, group: &str, setting: &str, method: &str) -> Option<f64> {
    let mut reader = csv::Reader::from_reader(TABLES.as_bytes());
    let cell = [table, group, setting, method];
    reader.records().flatten().find_map(|record| {
        let same = cell
            .iter()
            .enumerate()
            .all(|(n, text)| record.get(n) == Some(text));
        same.then(|| record.get(4)?.parse().ok())?
    })
}

/// A method's balanced accuracy on digits.
pub(super) fn digits(setting: Setting, method: Method) -> Option<f64> {
    let (title, shift) = (setting.title(), setting.shift.name());
    match method {
        Method::Ostar(Stage::Alignment) => value("ablation_im", title, shift, "OSTAR (CAL)"),
        Method::Ostar(Stage::Classifier) => value("ablation_im", title, shift, "OSTAR (+SS)"),
        _ => {
            let group = format!("Digits - {title}");
            value("balanced_accuracy", &group, shift, method.title())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_on_digits_has_a_number_in_the_paper() {
        for setting in Setting::all() {
            for method in Method::ALL {
                assert!(digits(setting, method).is_some(), "{setting:?} {method}");
            }
        }
        let setting = "m2u-high".parse().unwrap();
        assert_eq!(digits(setting, Method::Ostar(Stage::Encoder)), Some(96.06));
    }
}
