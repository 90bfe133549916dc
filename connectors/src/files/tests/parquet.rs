use std::{fs::File, path::Path, sync::Arc};

use ::parquet::{
    data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int64Type},
    file::writer::SerializedFileWriter,
    schema::parser::parse_message_type,
};

use super::*;

const SCHEMA: &str = "message rows {
    required binary label (UTF8);
    optional double price;
    required int64 time_ms;
    required group latent (LIST) { repeated group list { required float element; } }
}";

/// Two rows: spam with a price and [1, 2.5], ham without one and [3, 4].
pub(super) fn write(path: &Path) {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let labels = ["spam", "ham"].map(ByteArray::from);
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<ByteArrayType>();
    typed.write_batch(&labels, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<DoubleType>();
    typed.write_batch(&[9.5], Some(&[1, 0]), None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<Int64Type>();
    typed.write_batch(&[1000, 2000], None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let typed = column.typed::<FloatType>();
    let values = [1.0, 2.5, 3.0, 4.0];
    let (levels, repetitions) = (Some(&[1; 4][..]), Some(&[0, 1, 0, 1][..]));
    typed.write_batch(&values, levels, repetitions).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn parquet_columns_are_columns() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(&path);
    let file = LabelledFile::read(&path, &FileSettings::default(), None, None).unwrap();
    assert_eq!(numbers(&file), [1.0, 2.5, 3.0, 4.0]);
    assert_eq!(file.labels(), [1, 0]);
    let classes = ["ham".to_owned(), "spam".to_owned()];
    let events = FileEvents::open(&path, &FileSettings::default(), &LATENT, &classes).unwrap();
    let times: Vec<_> = events.map(|event| event.unwrap().time_ms).collect();
    assert_eq!(times, [Some(1000), Some(2000)]);
    let fields = FileSettings {
        input: Some(InputKind::Fields),
        kinds: BTreeMap::from([("latent".into(), ColumnKind::Ignore)]),
        ..FileSettings::default()
    };
    let file = LabelledFile::read(&path, &fields, None, None).unwrap();
    let mean = match schema(&file).fields[0].kind {
        FieldKind::Number { mean, .. } => mean,
        _ => panic!("prices are numbers"),
    };
    assert_eq!(mean, 9.5);
}
