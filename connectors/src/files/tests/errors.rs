use super::*;

#[test]
fn errors_name_file_row_and_column() {
    let default = FileSettings::default();
    let latent = columns("z");
    let no_label =
        "a.csv: there is no column `label`, expected the classes; name their column with --label";
    for (name, content, settings, expected) in [
        ("a.csv", "x\n1\n", &default, no_label),
        (
            "a.csv",
            "label,x\n",
            &default,
            "a.csv: there are no rows, expected some",
        ),
        (
            "a.csv",
            "label,x,x\n",
            &default,
            "a.csv: column `x` comes twice, expected every name once",
        ),
        (
            "a.csv",
            "label,x\na,1,2\n",
            &default,
            "a.csv, row 2: has 3 cells, expected 2 as in the header",
        ),
        (
            "a.csv",
            "label,z0\na,1\nb,?\n",
            &latent,
            "a.csv, row 3, column `z0`: is \"?\", expected a number",
        ),
        (
            "a.csv",
            "label,z0\na,1\nb,\n",
            &latent,
            "a.csv, row 3, column `z0`: is empty, expected a number",
        ),
        (
            "a.csv",
            "label,z0\na,1\nb,inf\n",
            &latent,
            "a.csv, row 3, column `z0`: is inf, expected a finite number",
        ),
        (
            "a.csv",
            "label,z0\na,1\n,2\n",
            &latent,
            "a.csv, row 3, column `label`: is empty, expected a class",
        ),
        (
            "a.jsonl",
            "{}\n[1]\n",
            &default,
            "a.jsonl, row 2: is not a JSON object",
        ),
        (
            "a.jsonl",
            "{\"label\": 1, \"z\": [1]}\n{\"label\": 0, \"z\": [1, 2]}",
            &latent,
            "a.jsonl, row 2, column `z`: has 2 numbers, expected 1 as in the rows before",
        ),
        (
            "a.jsonl",
            "{\"label\": 1, \"z\": [\"1\"]}",
            &latent,
            "a.jsonl, row 1, column `z`: is a list of texts, expected a list of numbers",
        ),
        (
            "a.xls",
            "",
            &default,
            "a.xls: expected a name that ends in .csv",
        ),
        (
            "a.safetensors",
            "x",
            &default,
            "cannot read a.safetensors: ",
        ),
    ] {
        let error = read(name, content, settings).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    let missing = LabelledFile::read("nowhere.csv".as_ref(), &default, None, None)
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("cannot read nowhere.csv: "),
        "{missing}"
    );
}

#[test]
fn columns_that_are_not_there_are_named_with_those_that_are() {
    let content = "a,b\n1,2\n";
    let settings = FileSettings {
        id: Some("key".into()),
        ..FileSettings::default()
    };
    let error = events("a.csv", content, &LATENT, &settings).unwrap_err();
    assert_eq!(
        error,
        "a.csv: there is no column `key`, which --id names; the columns are `a`, `b`"
    );
    let settings = FileSettings {
        kinds: BTreeMap::from([("c".into(), ColumnKind::Ignore)]),
        input: Some(InputKind::Fields),
        ..FileSettings::default()
    };
    let error = read("a.csv", content, &settings).unwrap_err();
    assert!(
        error.contains("no column `c`, which --kind or --ignore names;"),
        "{error}"
    );
    let error = events("a.csv", content, &LATENT, &FileSettings::default()).unwrap_err();
    assert!(
        error.contains("no column `latent` and no `latent0`")
            && error.ends_with("name them with --columns"),
        "{error}"
    );
    let unknown = "label,latent0,latent1\nham,1,2\neggs,3,4\n";
    let error = events("a.csv", unknown, &LATENT, &FileSettings::default()).unwrap_err();
    assert_eq!(
        error,
        "a.csv, row 3, column `label`: \"eggs\" is not a class's name or number"
    );
    let narrow = events("a.csv", "latent0\n1\n", &LATENT, &FileSettings::default()).unwrap_err();
    assert_eq!(
        narrow,
        "a.csv, row 2, column `latent0`: has 1 numbers, expected 2 as the bundle takes"
    );
}
