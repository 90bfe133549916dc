//! Input tensors of a model: their metadata, and their conversion to inputs of `ostar.v1`.

use ostar_bundle::{
    self, Description,
    fields::{Field, FieldKind, FieldSchema},
};
use ostar_connectors::proto::{self, Fields, Input, Vector, input::Kind, value};
use tonic::Status;

use super::{
    proto::model_metadata_response::TensorMetadata,
    tensor::{Datatype, Tensor, Values, about},
};

/// Name of the only input of a model that takes vectors.
const FEATURES: &str = "features";

/// Metadata of the inputs: one tensor of vectors, or one tensor per field.
pub(super) fn metadata(description: &Description) -> Vec<TensorMetadata> {
    let tensor = |name: &str, datatype: Datatype, width| TensorMetadata {
        name: name.to_owned(),
        datatype: datatype.name().to_owned(),
        shape: vec![-1, width],
    };
    match form(description) {
        Form::Vectors { width, .. } => vec![tensor(FEATURES, Datatype::Fp32, width as i64)],
        Form::Fields(schema) => {
            let field = |field: &Field| tensor(&field.name, datatype(field.kind), 1);
            schema.fields.iter().map(field).collect()
        }
    }
}

/// Converts the tensors of a request to rows.
pub(super) fn read(description: &Description, tensors: Vec<Tensor>) -> Result<Vec<Input>, Status> {
    match form(description) {
        Form::Vectors { width, kind } => read_vectors(tensors, width, kind),
        Form::Fields(schema) => read_fields(tensors, schema),
    }
}

enum Form<'a> {
    Vectors {
        width: usize,
        kind: fn(Vector) -> Kind,
    },
    Fields(&'a FieldSchema),
}

fn form(description: &Description) -> Form<'_> {
    let vectors = |width, kind| Form::Vectors { width, kind };
    let classes = description.classes.len();
    match &description.input {
        ostar_bundle::Input::Probabilities => vectors(classes, Kind::Probabilities),
        ostar_bundle::Input::Logits => vectors(classes, Kind::Logits),
        ostar_bundle::Input::Latent { width } => vectors(*width, Kind::Latent),
        ostar_bundle::Input::Dense { width } => vectors(*width, Kind::Dense),
        ostar_bundle::Input::Fields(schema) => Form::Fields(schema),
    }
}

fn datatype(kind: FieldKind) -> Datatype {
    match kind {
        FieldKind::Number { .. } => Datatype::Fp64,
        FieldKind::Category | FieldKind::Text => Datatype::Bytes,
    }
}

fn read_vectors(
    tensors: Vec<Tensor>,
    width: usize,
    kind: fn(Vector) -> Kind,
) -> Result<Vec<Input>, Status> {
    if let Some(stranger) = tensors.iter().find(|tensor| tensor.name != FEATURES) {
        return Err(unknown(&stranger.name, FEATURES));
    }
    let [tensor] = <[Tensor; 1]>::try_from(tensors).map_err(|tensors| {
        let count = tensors.len();
        Status::invalid_argument(format!("inputs: has {count}, expected {FEATURES:?} once"))
    })?;
    if !matches!(tensor.shape[..], [_, columns] if columns == width as i64) {
        let problem = format!("shape is {:?}, expected [rows, {width}]", tensor.shape);
        return Err(about(FEATURES, problem));
    }
    let numbers = match tensor.values {
        Values::Singles(numbers) => numbers,
        Values::Doubles(numbers) => numbers.into_iter().map(|number| number as f32).collect(),
        Values::Wholes(_) | Values::Texts(_) => {
            return Err(wrong_type(FEATURES, tensor.datatype, "FP32 or FP64"));
        }
    };
    let row = |row: &[f32]| Input {
        kind: Some(kind(Vector {
            values: row.to_vec(),
        })),
    };
    Ok(numbers.chunks_exact(width).map(row).collect())
}

/// A field without a tensor counts as missing, as in events.
fn read_fields(tensors: Vec<Tensor>, schema: &FieldSchema) -> Result<Vec<Input>, Status> {
    let Some(first) = tensors.first() else {
        return Err(Status::invalid_argument(
            "inputs: is empty, expected one tensor per field",
        ));
    };
    let count = first.values.len();
    let mut rows = vec![Fields::default(); count];
    for tensor in tensors {
        let name = tensor.name;
        let Some(field) = schema.fields.iter().find(|field| field.name == name) else {
            let names: Vec<_> = schema.fields.iter().map(|field| &field.name[..]).collect();
            return Err(unknown(&name, &names.join(", ")));
        };
        let fits = matches!(tensor.shape[..], [_] | [_, 1]) && tensor.values.len() == count;
        if !fits {
            let problem = format!("shape is {:?}, expected [{count}, 1]", tensor.shape);
            return Err(about(&name, problem));
        }
        let values = cells(field.kind, tensor.values)
            .map_err(|expected| wrong_type(&name, tensor.datatype, expected))?;
        for (row, kind) in rows.iter_mut().zip(values) {
            let value = proto::Value { kind: Some(kind) };
            if row.values.insert(name.clone(), value).is_some() {
                return Err(about(&name, "is given twice"));
            }
        }
    }
    let input = |fields| Input {
        kind: Some(Kind::Fields(fields)),
    };
    Ok(rows.into_iter().map(input).collect())
}

/// `Err` names the types that the field takes.
fn cells(kind: FieldKind, values: Values) -> Result<Vec<value::Kind>, &'static str> {
    let is_number = matches!(kind, FieldKind::Number { .. });
    Ok(match values {
        Values::Singles(numbers) if is_number => {
            let number = |number: f32| value::Kind::Number(number.into());
            numbers.into_iter().map(number).collect()
        }
        Values::Doubles(numbers) if is_number => {
            numbers.into_iter().map(value::Kind::Number).collect()
        }
        Values::Wholes(numbers) if is_number => {
            let number = |number: i64| value::Kind::Number(number as f64);
            numbers.into_iter().map(number).collect()
        }
        // Integers that name a category. As text they stay exact beyond the precision of a double.
        Values::Wholes(numbers) => {
            let text = |number: i64| value::Kind::Text(number.to_string());
            numbers.into_iter().map(text).collect()
        }
        Values::Texts(texts) if !is_number => texts.into_iter().map(value::Kind::Text).collect(),
        Values::Texts(_) => return Err("FP64, FP32 or an integer type"),
        Values::Singles(_) | Values::Doubles(_) => return Err("BYTES or an integer type"),
    })
}

fn wrong_type(name: &str, found: Datatype, expected: &str) -> Status {
    let found = found.name();
    about(name, format!("datatype is {found}, expected {expected}"))
}

fn unknown(name: &str, expected: &str) -> Status {
    about(
        name,
        format!("is not one of the model's, expected {expected}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> FieldSchema {
        let number = FieldKind::Number {
            mean: 0.0,
            deviation: 1.0,
        };
        let field = |name: &str, kind| Field {
            name: name.into(),
            kind,
        };
        FieldSchema {
            fields: vec![
                field("subject", FieldKind::Text),
                field("sender", FieldKind::Category),
                field("links", number),
            ],
            buckets: 16,
        }
    }

    fn column(name: &str, datatype: Datatype, shape: &[i64], values: Values) -> Tensor {
        Tensor::new(name.into(), datatype, shape.to_vec(), values).unwrap()
    }

    fn texts(texts: &[&str]) -> Values {
        Values::Texts(texts.iter().map(|text| text.to_string()).collect())
    }

    #[test]
    fn a_tensor_a_field_becomes_rows_and_one_that_is_absent_counts_as_missing() {
        let tensors = vec![
            column(
                "subject",
                Datatype::Bytes,
                &[2, 1],
                texts(&["hi", "win money"]),
            ),
            column("links", Datatype::Int32, &[2], Values::Wholes(vec![0, 7])),
        ];
        let rows = read_fields(tensors, &schema()).unwrap();
        let Some(Kind::Fields(second)) = &rows[1].kind else {
            panic!("not fields");
        };
        assert_eq!(rows.len(), 2);
        assert_eq!(second.values.len(), 2);
        let kind = |name| second.values[name].kind.clone().unwrap();
        assert_eq!(kind("subject"), value::Kind::Text("win money".into()));
        assert_eq!(kind("links"), value::Kind::Number(7.0));
    }

    #[test]
    fn whole_numbers_can_name_a_category_to_the_last_digit() {
        let large = i64::MAX - 1;
        let sender = column("sender", Datatype::Int64, &[1], Values::Wholes(vec![large]));
        let rows = read_fields(vec![sender], &schema()).unwrap();
        let Some(Kind::Fields(row)) = &rows[0].kind else {
            panic!("not fields");
        };
        let text = value::Kind::Text(large.to_string());
        assert_eq!(row.values["sender"].kind, Some(text));
    }

    #[test]
    fn columns_that_do_not_fit_the_fields_are_refused_by_name() {
        let links = || {
            column(
                "links",
                Datatype::Fp64,
                &[2],
                Values::Doubles(vec![0.0, 1.0]),
            )
        };
        let refused = |tensors| {
            let status = read_fields(tensors, &schema()).unwrap_err();
            status.message().to_owned()
        };
        for (other, problem) in [
            (
                column("size", Datatype::Fp64, &[2], Values::Doubles(vec![0.0; 2])),
                r#"input "size": is not one of the model's, expected subject, sender, links"#,
            ),
            (
                column("sender", Datatype::Bytes, &[3], texts(&["a", "b", "c"])),
                r#"input "sender": shape is [3], expected [2, 1]"#,
            ),
            (
                column(
                    "sender",
                    Datatype::Fp32,
                    &[2],
                    Values::Singles(vec![0.0; 2]),
                ),
                r#"input "sender": datatype is FP32, expected BYTES or an integer type"#,
            ),
            (links(), r#"input "links": is given twice"#),
        ] {
            assert_eq!(refused(vec![links(), other]), problem);
        }
        let words = column("links", Datatype::Bytes, &[1], texts(&["many"]));
        let expected =
            r#"input "links": datatype is BYTES, expected FP64, FP32 or an integer type"#;
        assert_eq!(refused(vec![words]), expected);
        assert!(refused(vec![]).starts_with("inputs: is empty"));
    }
}
