mod errors;
mod fuzz;
#[cfg(feature = "parquet")]
mod parquet;

use std::{collections::BTreeMap, fs, path::PathBuf};

use ostar_bundle::{
    Input, InputKind,
    fields::{FieldKind, FieldSchema},
    fit::LabelledRows,
};
use ostar_engine::{HostTensor, Inputs, NamedTensors, tensors::to_safetensors};
use tempfile::{TempDir, tempdir};

use super::*;
use crate::event::{Cell, Row};

const LATENT: Input = Input::Latent { width: 2 };

fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    (folder, path)
}

fn read(name: &str, content: &str, settings: &FileSettings) -> Result<LabelledFile, String> {
    let (_folder, path) = file(name, content);
    let prefix = path.display().to_string();
    LabelledFile::read(&path, settings, None, None)
        .map_err(|error| error.to_string().replace(&prefix, name))
}

fn schema(file: &LabelledFile) -> &FieldSchema {
    match file.labelled().rows {
        LabelledRows::Fields { schema, .. } => schema,
        _ => panic!("rows of fields"),
    }
}

fn events(
    name: &str,
    content: &str,
    input: &Input,
    settings: &FileSettings,
) -> Result<Vec<FileEvent>, String> {
    let (_folder, path) = file(name, content);
    let prefix = path.display().to_string();
    let classes = ["ham".to_owned(), "spam".to_owned()];
    let events = FileEvents::open(&path, settings, input, &classes);
    let events = events.and_then(Iterator::collect);
    events.map_err(|error: FileError| error.to_string().replace(&prefix, name))
}

fn numbers(file: &LabelledFile) -> Vec<f64> {
    let rows = match file.labelled().rows {
        LabelledRows::Latents(rows)
        | LabelledRows::Dense(rows)
        | LabelledRows::Probabilities(rows)
        | LabelledRows::Logits(rows) => rows,
        LabelledRows::Fields { .. } => panic!("expected numbers"),
    };
    (0..rows.values().len())
        .map(|n| rows.values().get(n))
        .collect()
}

fn columns(prefix: &str) -> FileSettings {
    FileSettings {
        columns: Some(prefix.into()),
        ..FileSettings::default()
    }
}

#[test]
fn latents_are_the_same_from_every_text_format() {
    let array = "label,latent,id\nspam,\"[1, 2.5]\",a\nham,\"[3,4]\",b\n";
    let prefix = "\u{feff}latent_1\tlabel\tlatent_0\n2.5\tspam\t1\n4\tham\t3\n";
    let lines =
        "{\"latent\": [1, 2.5], \"label\": \"spam\"}\n\n{\"label\": \"ham\", \"latent\": [3, 4]}\n";
    for (name, content) in [("a.csv", array), ("a.tsv", prefix), ("a.jsonl", lines)] {
        let file = read(name, content, &FileSettings::default()).unwrap();
        assert!(
            matches!(file.labelled().rows, LabelledRows::Latents(_)),
            "{name}"
        );
        assert_eq!(numbers(&file), [1.0, 2.5, 3.0, 4.0], "{name}");
        assert_eq!(file.classes(), ["ham", "spam"]);
        assert_eq!(file.labels(), [1, 0]);
    }
}

#[test]
fn safetensors_are_columns() {
    let mut tensors = NamedTensors::new();
    tensors.insert(
        "latent".into(),
        HostTensor::f32([2, 2], vec![1.0, 2.5, 3.0, 4.0]),
    );
    tensors.insert("label".into(), HostTensor::f64([2], vec![10.0, 9.0]));
    let bytes = |tensors: &NamedTensors| to_safetensors(tensors, BTreeMap::new()).unwrap();
    let (_folder, path) = file("a.safetensors", bytes(&tensors));
    let read = LabelledFile::read(&path, &FileSettings::default(), None, None).unwrap();
    assert_eq!(numbers(&read), [1.0, 2.5, 3.0, 4.0]);
    // Whole numbers sort as such: 9 is before 10.
    assert_eq!(
        (read.classes(), read.labels()),
        (&["9".to_owned(), "10".into()][..], &[1, 0][..])
    );
    tensors.insert("more".into(), HostTensor::f64([3], vec![0.0; 3]));
    fs::write(&path, bytes(&tensors)).unwrap();
    let error = LabelledFile::read(&path, &FileSettings::default(), None, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("tensor `more` has shape [3], expected (2)"),
        "{error}"
    );
}

#[test]
fn dense_features_are_all_columns_that_are_nothing_else() {
    let settings = FileSettings {
        input: Some(InputKind::Dense),
        label: Some("class".into()),
        kinds: BTreeMap::from([("comment".into(), ColumnKind::Ignore)]),
        ..FileSettings::default()
    };
    let content = "id,class,width,height,comment\n1,0,0.5,2,x\n2,1,1.5,3,y\n";
    let file = read("a.csv", content, &settings).unwrap();
    assert!(matches!(file.labelled().rows, LabelledRows::Dense(_)));
    assert_eq!(numbers(&file), [0.5, 2.0, 1.5, 3.0]);
}

#[test]
fn kinds_of_fields_are_guessed_and_can_be_overridden() {
    let mut content = String::from("label,price,country,subject,code\n");
    for row in 0..200 {
        let price = match row % 3 {
            0 => "NaN".to_owned(),
            _ => row.to_string(),
        };
        let subject = format!("offer number {row}");
        content += &format!("{},{price},c{},{subject},{}\n", row % 2, row % 5, row % 4);
    }
    let settings = FileSettings {
        kinds: BTreeMap::from([("code".into(), ColumnKind::Category)]),
        ..FileSettings::default()
    };
    let file = read("a.csv", &content, &settings).unwrap();
    let kinds: Vec<_> = schema(&file)
        .fields
        .iter()
        .map(|field| field.kind)
        .collect();
    let FieldKind::Number { mean, .. } = kinds[0] else {
        panic!("prices are numbers");
    };
    let prices = || (0..200).filter(|row| row % 3 != 0);
    let expected = prices().sum::<i32>() as f64 / prices().count() as f64;
    assert!((mean - expected).abs() < 1e-9, "{mean}");
    assert_eq!(
        kinds[1..],
        [FieldKind::Category, FieldKind::Text, FieldKind::Category]
    );
}

#[test]
fn the_same_fields_in_csv_and_json_are_the_same_rows() {
    let csv = "label,price,country,subject\nham,1.5,7,a b\nspam,,8,c d\n";
    let lines = r#"{"label": "ham", "fields": {"price": 1.5, "country": 7, "subject": "a b"}}
{"label": "spam", "fields": {"country": 8, "subject": "c d"}}"#;
    let settings = FileSettings {
        kinds: BTreeMap::from([("country".into(), ColumnKind::Category)]),
        ..FileSettings::default()
    };
    let hashed = |name, content| {
        let file = read(name, content, &settings).unwrap();
        let LabelledRows::Fields { block, .. } = file.labelled().rows else {
            panic!("expected fields");
        };
        let Inputs::Fields(rows) = block.inputs() else {
            panic!("expected fields");
        };
        let mut tokens = rows.tokens.to_vec();
        // The columns of JSON lines come in alphabetical order, and country is before subject in both.
        tokens.sort_unstable();
        (
            tokens,
            rows.offsets.to_vec(),
            rows.numbers.get(0),
            rows.numbers.get(1),
        )
    };
    assert_eq!(hashed("a.csv", csv), hashed("a.jsonl", lines));
}

#[test]
fn events_have_ids_times_labels_and_inputs() {
    let content = "latent0,latent1,label,id,time_ms,label_time_ms\n1,2,spam,7,1000,2000\n3,4,,,,\n5,6,0,x,3000,\n";
    let read = events("a.csv", content, &LATENT, &FileSettings::default()).unwrap();
    let event =
        |row, id: Option<&str>, times: [Option<i64>; 2], label, input: [f32; 2]| FileEvent {
            row,
            id: id.map(str::to_owned),
            time_ms: times[0],
            label,
            label_time_ms: times[1],
            input: Row::Dense(input.to_vec()),
        };
    let expected = [
        event(2, Some("7"), [Some(1000), Some(2000)], Some(1), [1.0, 2.0]),
        event(3, None, [None, None], None, [3.0, 4.0]),
        event(4, Some("x"), [Some(3000), None], Some(0), [5.0, 6.0]),
    ];
    assert_eq!(read, expected);
}

#[test]
fn fields_of_events_are_those_of_the_bundle() {
    let labelled = "label,price,word\nham,1,a\nspam,2,b\n";
    let labelled = read("a.csv", labelled, &FileSettings::default()).unwrap();
    let input = Input::Fields(schema(&labelled).clone());
    let content = "word,unknown,price\nb,x,2.5\n,x,\n";
    let read = events("b.csv", content, &input, &FileSettings::default()).unwrap();
    let row = |price, word| {
        Row::Fields(BTreeMap::from([
            ("price".to_owned(), price),
            ("word".to_owned(), word),
        ]))
    };
    assert_eq!(
        read[0].input,
        row(Cell::Number(2.5), Cell::Text("b".into()))
    );
    assert_eq!(read[1].input, row(Cell::Missing, Cell::Missing));
    let other = events("b.csv", "x,y\n1,2\n", &input, &FileSettings::default()).unwrap_err();
    assert_eq!(other, "b.csv: none of the columns is a field of the bundle");
    let cheap = events(
        "b.csv",
        "price\n1\ncheap\n",
        &input,
        &FileSettings::default(),
    );
    let expected = "b.csv, row 3, column `price`: is \"cheap\", expected a number";
    assert_eq!(cheap.unwrap_err(), expected);
}

#[test]
fn a_list_of_probabilities_needs_the_order_of_its_classes() {
    let list = "label,probabilities_0,probabilities_1\nspam,0.1,0.9\nham,0.8,0.2\n";
    let refused = read("a.csv", list, &FileSettings::default()).unwrap_err();
    assert_eq!(
        refused,
        "a.csv: probabilities are numbers without names, expected to know which class each of them is of: name the classes in \
         the order of the numbers with --classes NAME,NAME (the labels, sorted, are ham, spam), or give the numbers as a map \
         of classes"
    );
    let logits = r#"{"label": 1, "logits": [0.5, -0.5]}"#;
    let refused = read("a.jsonl", logits, &FileSettings::default()).unwrap_err();
    assert!(
        refused.contains("a.jsonl: logits are numbers without names"),
        "{refused}"
    );
    let given = |classes: &[&str]| {
        let (_folder, path) = file("a.csv", list);
        let classes: Vec<String> = classes.iter().map(|class| (*class).to_owned()).collect();
        LabelledFile::read(&path, &FileSettings::default(), None, Some(&classes))
    };
    assert_eq!(given(&["spam", "ham"]).unwrap().labels(), [0, 1]);
    assert_eq!(given(&["ham", "spam"]).unwrap().labels(), [1, 0]);
    let refused = given(&["ham", "spam", "eggs"]).unwrap_err().to_string();
    assert!(
        refused.contains("rows have 2 numbers, expected one for each of the 3 classes"),
        "{refused}"
    );
}

#[test]
fn classes_that_columns_name_need_no_order() {
    let map = r#"{"label": "spam", "probabilities": {"spam": 0.9, "ham": 0.1}}
        {"label": "ham", "probabilities": {"ham": 0.8, "spam": 0.2}}"#;
    let columns = "label,probabilities.spam,probabilities.ham\nspam,0.9,0.1\nham,0.2,0.8\n";
    for (name, content, first) in [("a.jsonl", map, "ham"), ("a.csv", columns, "spam")] {
        let file = read(name, content, &FileSettings::default()).unwrap();
        assert_eq!(file.classes()[0], first);
        let right: Vec<f64> = numbers(&file)
            .chunks_exact(2)
            .zip(file.labels())
            .map(|(row, label)| row[*label as usize])
            .collect();
        assert!(right.iter().all(|value| *value > 0.5), "{right:?}");
        // Whatever the file's order, a stream is read in the bundle's.
        let rows = events(
            name,
            content,
            &Input::Probabilities,
            &FileSettings::default(),
        )
        .unwrap();
        let Row::Dense(row) = &rows[0].input else {
            panic!("not a list")
        };
        assert_eq!(row, &[0.1, 0.9]);
    }
    let other = "label,probabilities.spam,probabilities.eggs\nspam,0.9,0.1\n";
    let refused = events(
        "a.csv",
        other,
        &Input::Probabilities,
        &FileSettings::default(),
    )
    .unwrap_err();
    assert!(
        refused.contains("name the classes spam, eggs, expected ham, spam"),
        "{refused}"
    );
    let gap = r#"{"label": "spam", "probabilities": {"spam": 0.9, "ham": 0.1}}
        {"label": "ham", "probabilities": {"ham": 0.8}}"#;
    let refused = read("a.jsonl", gap, &FileSettings::default()).unwrap_err();
    assert!(
        refused.contains("column `probabilities.spam`: is empty"),
        "{refused}"
    );
}
