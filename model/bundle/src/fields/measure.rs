//! Checks a schema, and measures the means and deviations of its numbers.

use std::collections::BTreeSet;

use ostar_engine::{Error, Result, moments::Moments};

use super::{FieldKind, FieldSchema, FieldValue, wrong_kind};

impl FieldSchema {
    /// Checks that there are fields, that names are unique, that numbers can be standardised, and that the embedding
    /// table has rows if there are tokens. Returns the first problem.
    pub fn validate(&self) -> Result<()> {
        if self.fields.is_empty() {
            return Err(Error::shape("fields", "at least one field", 0));
        }
        if self.bags() > 0 && self.buckets == 0 {
            return Err(Error::setting(
                "buckets",
                "is 0, expected at least 1 for categories and texts",
            ));
        }
        let mut names = BTreeSet::new();
        for field in &self.fields {
            let name = &field.name;
            if !names.insert(name) {
                return Err(Error::setting(
                    format!("field `{name}`"),
                    "appears twice, expected unique names",
                ));
            }
            if let FieldKind::Number { mean, deviation } = field.kind
                && !(mean.is_finite() && deviation.is_finite() && deviation > 0.0)
            {
                return Err(Error::setting(
                    format!("field `{name}`"),
                    format!(
                        "has mean {mean} and deviation {deviation}, expected finite numbers and a \
                         deviation above 0"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Sets the mean and deviation of every number field to those of `rows`, ignoring missing values. A field that
    /// is constant or always missing gets a deviation of 1.
    pub fn measure<'v, R: Fn(usize, &str) -> FieldValue<'v>>(
        &mut self,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<()> {
        let mut moments = vec![Moments::default(); self.fields.len()];
        for (row, value) in rows.into_iter().enumerate() {
            for (place, (field, moments)) in self.fields.iter().zip(&mut moments).enumerate() {
                if !matches!(field.kind, FieldKind::Number { .. }) {
                    continue;
                }
                match value(place, &field.name) {
                    FieldValue::Missing => (),
                    FieldValue::Number(number) if number.is_finite() => moments.add(number),
                    FieldValue::Number(number) => {
                        return Err(Error::setting(
                            format!("field `{}`", field.name),
                            format!("of row {row} is {number}, expected a finite number"),
                        ));
                    }
                    FieldValue::Text(text) => {
                        let found = format!("the text {text:?} in row {row}");
                        return Err(wrong_kind(field, "a number", &found));
                    }
                    FieldValue::Texts(_) => {
                        let found = format!("a list in row {row}");
                        return Err(wrong_kind(field, "a number", &found));
                    }
                }
            }
        }
        for (field, moments) in self.fields.iter_mut().zip(&moments) {
            if let FieldKind::Number { mean, deviation } = &mut field.kind {
                (*mean, *deviation) = (moments.mean, moments.deviation());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Field;

    fn schema() -> FieldSchema {
        let number = FieldKind::Number {
            mean: 0.0,
            deviation: 1.0,
        };
        let fields = [("price", number), ("word", FieldKind::Text)];
        FieldSchema {
            fields: fields
                .map(|(name, kind)| Field {
                    name: name.into(),
                    kind,
                })
                .into(),
            buckets: 8,
        }
    }

    #[test]
    fn numbers_are_measured_without_the_missing_ones() {
        let mut measured = schema();
        let prices = [Some(2.0), None, Some(4.0), Some(9.0)];
        let rows = prices.map(|price| {
            move |_: usize, name: &str| match (name, price) {
                ("price", Some(price)) => FieldValue::Number(price),
                _ => FieldValue::Missing,
            }
        });
        measured.measure(rows).unwrap();
        let FieldKind::Number { mean, deviation } = measured.fields[0].kind else {
            panic!("the kind of a field does not change");
        };
        assert!((mean - 5.0).abs() < 1e-12, "{mean}");
        assert!((deviation - (26f64 / 3.0).sqrt()).abs() < 1e-12);
        let infinite = measured.measure([|_: usize, _: &str| FieldValue::Number(f64::NAN)]);
        assert_eq!(
            infinite.unwrap_err().to_string(),
            "field `price`: of row 0 is NaN, expected a finite number"
        );
    }

    #[test]
    fn a_schema_that_cannot_work_is_refused_by_field() {
        let message = |change: fn(&mut FieldSchema)| {
            let mut schema = schema();
            schema.validate().unwrap();
            change(&mut schema);
            schema.validate().unwrap_err().to_string()
        };
        assert!(message(|s| s.fields.clear()).contains("at least one field"));
        assert!(message(|s| s.buckets = 0).starts_with("buckets: is 0"));
        assert!(message(|s| s.fields[1].name = "price".into()).contains("`price`: appears twice"));
        let flat = message(|s| {
            s.fields[0].kind = FieldKind::Number {
                mean: 0.0,
                deviation: 0.0,
            }
        });
        assert!(
            flat.contains("`price`: has mean 0 and deviation 0"),
            "{flat}"
        );
    }
}
