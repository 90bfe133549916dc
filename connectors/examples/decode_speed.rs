//! Measures the time to decode an event: `cargo run --profile dist -p ostar-connectors --example decode_speed`.

use std::{collections::BTreeMap, time::Instant};

use ostar_bundle::{
    Input,
    fields::{Field, FieldKind, FieldSchema},
};
use ostar_connectors::event::{
    Cell, Chunk, Decoder, Encoder, EventFormat, EventSettings, InputRows, RecordMeta, Row,
};

const WIDTH: usize = 128;
/// Named fields of an event, half of them numbers.
const FIELDS: usize = 16;
/// Events per chunk, about as many as in the daemon.
const CHUNK: usize = 1_000;
const CHUNKS: usize = 300;

fn main() -> anyhow::Result<()> {
    let input = Input::Latent { width: WIDTH };
    let row = (0..WIDTH).map(|column| (column as f32 * 0.37).sin());
    let row = Row::Dense(row.collect());
    for format in [EventFormat::Raw, EventFormat::Protobuf, EventFormat::Json] {
        encoded(format, &input, &row)?;
    }
    #[cfg(feature = "schemas")]
    avro(&input)?;
    let name = |number: usize| format!("field_{number}");
    let kind = |number: usize| match number % 2 {
        0 => FieldKind::Number {
            mean: 0.0,
            deviation: 1.0,
        },
        _ => FieldKind::Category,
    };
    let input = Input::Fields(FieldSchema {
        fields: (0..FIELDS)
            .map(|number| Field {
                name: name(number),
                kind: kind(number),
            })
            .collect(),
        buckets: 1_000,
    });
    let cell = |number: usize| match number % 2 {
        0 => Cell::Number(number as f64 * 0.37),
        _ => Cell::Text(format!("word {number}").into()),
    };
    let cells: BTreeMap<_, _> = (0..FIELDS)
        .map(|number| (name(number), cell(number)))
        .collect();
    for format in [EventFormat::Protobuf, EventFormat::Json] {
        encoded(format, &input, &Row::Fields(cells.clone()))?;
    }
    Ok(())
}

fn encoded(format: EventFormat, input: &Input, row: &Row) -> anyhow::Result<()> {
    let settings = EventSettings {
        format,
        ..EventSettings::default()
    };
    let payload = Encoder::new(&settings, input, 2)?.encode(Some("event-17"), Some(17), row);
    measure(&settings, input, &payload)
}

/// The same vector as an Avro array of floats, with the schema from a file.
#[cfg(feature = "schemas")]
fn avro(input: &Input) -> anyhow::Result<()> {
    let file = std::env::temp_dir().join(format!("decode-speed-{}.avsc", std::process::id()));
    let schema = r#"{"type": "record", "name": "Event", "fields": [{"name": "id", "type": "string"},
        {"name": "latent", "type": {"type": "array", "items": "float"}}]}"#;
    std::fs::write(&file, schema)?;
    let settings = EventSettings {
        format: EventFormat::Avro,
        schema_file: Some(file.clone()),
        ..EventSettings::default()
    };
    // An id of 8 letters, then one block of 128 numbers.
    let mut payload = b"\x10event-17\x80\x02".to_vec();
    for column in 0..WIDTH {
        payload.extend((column as f32 * 0.37).sin().to_le_bytes());
    }
    payload.push(0);
    measure(&settings, input, &payload)?;
    Ok(std::fs::remove_file(file)?)
}

#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn measure(settings: &EventSettings, input: &Input, payload: &[u8]) -> anyhow::Result<()> {
    let decoder = Decoder::new(settings, input, 2)?;
    let mut chunk = Chunk::new(InputRows::new(input, 2));
    let mut best = f64::INFINITY;
    for _ in 0..CHUNKS {
        chunk.rows.clear();
        chunk.events.clear();
        let start = Instant::now();
        for _ in 0..CHUNK {
            decoder.decode(payload, RecordMeta::default(), &mut chunk)?;
        }
        best = best.min(start.elapsed().as_secs_f64() / CHUNK as f64);
    }
    let (format, kind, bytes) = (settings.format, input.kind(), payload.len());
    println!(
        "{format:?} {kind}: {bytes} bytes, {:.3} us per event",
        best * 1e6
    );
    Ok(())
}
