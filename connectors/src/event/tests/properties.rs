use proptest::prelude::*;

use super::*;
use crate::settings::Period;

fn all_settings() -> impl Iterator<Item = (EventSettings, Input)> {
    let inputs = [Input::Probabilities, Input::Logits, LATENT, fields()];
    FORMATS.into_iter().flat_map(move |format| {
        let settings = settings(format);
        let suits = move |input: &Input| format.has_names() || !matches!(input, Input::Fields(_));
        inputs
            .clone()
            .into_iter()
            .filter(suits)
            .map(move |input| (settings.clone(), input))
    })
}

proptest! {
    #[test]
    fn no_bytes_panic_or_leave_something_behind(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        for (settings, input) in all_settings() {
            let _ = decode_with(&settings, &input, &payload, RecordMeta::default());
        }
    }

    #[test]
    fn no_json_like_text_panics(text in r#"[\[\]{}",:0-9eE.a-f\\ -]{0,60}"#, key in "latent|fields|id|time_ms|x") {
        let text = format!(r#"{{"{key}": {text}}}"#);
        for (settings, input) in all_settings() {
            let _ = decode_with(&settings, &input, text.as_bytes(), RecordMeta::default());
        }
    }

    #[test]
    fn numbers_come_back_to_the_bit(
        row in prop::collection::vec(any::<f32>().prop_filter("usable", |v| v.abs() <= 1e15), 3),
        id in "\\PC{1,20}",
        time_ms in any::<i64>(),
    ) {
        for format in FORMATS {
            let settings = EventSettings {
                max_time_ahead: Period::from_millis(u64::MAX),
                ..settings(format)
            };
            let encoder = Encoder::new(&settings, &LATENT, 2).unwrap();
            let payload = encoder.encode(Some(&id), Some(time_ms), &Row::Dense(row.clone()));
            let chunk = decode_with(&settings, &LATENT, &payload, RecordMeta::default()).unwrap();
            let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&dense(&chunk)), bits(&row));
            if format.has_names() {
                prop_assert_eq!(chunk.events[0].id.as_deref(), Some(&id[..]));
                prop_assert_eq!(chunk.events[0].time_ms, time_ms);
            }
        }
    }

    #[test]
    fn fields_come_back_as_if_they_had_not_been_encoded(
        price in prop::option::of(-1e6..1e6f64),
        country in prop::option::of("\\PC{0,8}"),
        subject in prop::option::of("[ a-zA-Z!äß\"\\\\]{0,40}"),
        flat in any::<bool>(),
    ) {
        let cell = |text: Option<String>| text.map_or(Cell::Missing, |text| Cell::Text(text.into()));
        let row = Row::Fields(BTreeMap::from([
            ("price".to_owned(), price.map_or(Cell::Missing, Cell::Number)),
            ("country".to_owned(), cell(country)),
            ("subject".to_owned(), cell(subject)),
        ]));
        for format in [EventFormat::Json, EventFormat::Protobuf] {
            let flat = flat && format == EventFormat::Json;
            let settings = EventSettings { flat, ..settings(format) };
            let payload = Encoder::new(&settings, &fields(), 2).unwrap().encode(Some("x"), None, &row);
            let chunk = decode_with(&settings, &fields(), &payload, RecordMeta::default()).unwrap();
            let mut rows = InputRows::new(&fields(), 2);
            Decoder::new(&settings, &fields(), 2).unwrap().push_row(&row, &mut rows).unwrap();
            prop_assert_eq!(format!("{:?}", chunk.rows), format!("{rows:?}"));
        }
    }
}
