//! Events of every format, of strangers.

use super::*;

fn seeds(format: EventFormat) -> Vec<Vec<u8>> {
    let dense = Row::Dense(vec![0.25, 0.5, 0.25]);
    let encode = |input: &Input, row: &Row| {
        let encoder = Encoder::new(&settings(format), input, 3).ok()?;
        Some(encoder.encode(Some("one"), Some(17), row))
    };
    let rows = [&LATENT, &Input::Probabilities].map(|input| encode(input, &dense));
    let fields = || {
        let cells = BTreeMap::from([
            ("price".to_owned(), Cell::Number(1.5)),
            ("subject".to_owned(), Cell::Text("hello \"world\"".into())),
        ]);
        encode(&fields(), &Row::Fields(cells))
    };
    let fields = (format != EventFormat::Raw).then(fields).flatten();
    rows.into_iter().flatten().chain(fields).collect()
}

/// Decodes the bytes as an event of every bundle. What is taken can be scored: it has a row for each event, of numbers.
fn check(format: EventFormat) -> impl Fn(&[u8]) {
    let inputs = [LATENT, Input::Probabilities, Input::Logits, fields()];
    let settings = settings(format);
    let decoders: Vec<(Decoder, Input)> = inputs
        .into_iter()
        .filter_map(|input| Some((Decoder::new(&settings, &input, 3).ok()?, input)))
        .collect();
    move |bytes: &[u8]| {
        for (decoder, input) in &decoders {
            let mut chunk = Chunk::new(InputRows::new(input, 3));
            let decoded = decoder.decode(bytes, RecordMeta::default(), &mut chunk);
            let count = usize::from(decoded.is_ok());
            assert_eq!((chunk.events.len(), chunk.rows.len()), (count, count));
            if let ostar_engine::Inputs::Dense(_) = chunk.rows.inputs() {
                assert!(dense(&chunk).iter().all(|value| value.is_finite()));
            }
        }
    }
}

#[test]
fn fuzz_json_events() {
    let format = EventFormat::Json;
    ostar_fuzzing::fuzz!("json_events", seeds(format), check(format));
}

#[test]
fn fuzz_protobuf_events() {
    let format = EventFormat::Protobuf;
    ostar_fuzzing::fuzz!("protobuf_events", seeds(format), check(format));
}

#[test]
fn fuzz_raw_events() {
    let format = EventFormat::Raw;
    ostar_fuzzing::fuzz!("raw_events", seeds(format), check(format));
}
