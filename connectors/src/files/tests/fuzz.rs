//! Files of strangers.

use super::*;

/// Reads the bytes as a labelled file and as events. What is taken is whole.
fn check(name: &'static str) -> impl Fn(&[u8]) {
    let folder = tempdir().unwrap();
    let classes = ["ham".to_owned(), "spam".to_owned()];
    move |bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        for settings in [FileSettings::default(), columns("latent_")] {
            if let Ok(file) = LabelledFile::read(&path, &settings, None, None) {
                let classes = file.classes().len() as u32;
                assert!(file.labels().iter().all(|label| *label < classes));
            }
            let events = FileEvents::open(&path, &settings, &LATENT, &classes);
            // An error ends the file for every caller.
            let events = events.into_iter().flatten();
            events.map_while(Result::ok).take(1_000).for_each(drop);
        }
    }
}

#[test]
fn fuzz_csv() {
    let seeds = [
        b"label,latent,id\nspam,\"[1, 2.5]\",a\nham,\"[3,4]\",b\n".to_vec(),
        b"\xef\xbb\xbflatent_1,label,latent_0\n2.5,spam,1\n4,ham,3\n".to_vec(),
    ];
    ostar_fuzzing::fuzz!("csv", seeds, check("a.csv"));
}

#[test]
fn fuzz_json_lines() {
    let seeds = [
        b"{\"latent\": [1, 2.5], \"label\": \"spam\"}\n\n{\"label\": 1, \"latent\": [3, 4]}\n"
            .to_vec(),
    ];
    ostar_fuzzing::fuzz!("json_lines", seeds, check("a.jsonl"));
}

#[cfg(feature = "parquet")]
fn parquet_bytes() -> Vec<u8> {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    super::parquet::write(&path);
    fs::read(&path).unwrap()
}

#[cfg(feature = "parquet")]
#[test]
fn fuzz_parquet() {
    ostar_fuzzing::fuzz!("parquet", [parquet_bytes()], check("a.parquet"));
}

/// The library panics on some of them, such as a column with a negative start.
#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_with_any_byte_changed_is_read_or_refused() {
    let (bytes, check) = (parquet_bytes(), check("a.parquet"));
    for at in 0..bytes.len() {
        for change in [1, 0x80] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            check(&changed);
        }
    }
}

#[test]
fn fuzz_safetensors() {
    let mut tensors = NamedTensors::new();
    let latent = HostTensor::f32([2, 2], vec![1.0, 2.5, 3.0, 4.0]);
    tensors.insert("latent".into(), latent);
    tensors.insert("label".into(), HostTensor::f64([2], vec![1.0, 0.0]));
    let seeds = [to_safetensors(&tensors, BTreeMap::new()).unwrap()];
    ostar_fuzzing::fuzz!("safetensors", seeds, check("a.safetensors"));
}
