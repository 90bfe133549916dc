//! Measures the time to decode an event: `cargo run --profile dist -p ostar-connectors --example decode_speed`.

use std::time::Instant;

use ostar_bundle::Input;
use ostar_connectors::event::{
    Chunk, Decoder, Encoder, EventFormat, EventSettings, InputRows, RecordMeta, Row,
};

const WIDTH: usize = 128;
/// Events per chunk, about as many as in the daemon.
const CHUNK: usize = 1_000;
const CHUNKS: usize = 300;

#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn main() -> anyhow::Result<()> {
    let input = Input::Latent { width: WIDTH };
    let row = (0..WIDTH).map(|column| (column as f32 * 0.37).sin());
    let row = Row::Dense(row.collect());
    for format in [EventFormat::Raw, EventFormat::Protobuf, EventFormat::Json] {
        let settings = EventSettings {
            format,
            ..EventSettings::default()
        };
        let payload = Encoder::new(&settings, &input, 2)?.encode(Some("event-17"), Some(17), &row);
        let decoder = Decoder::new(&settings, &input, 2)?;
        let mut chunk = Chunk::new(InputRows::new(&input, 2));
        let mut best = f64::INFINITY;
        for _ in 0..CHUNKS {
            chunk.rows.clear();
            chunk.events.clear();
            let start = Instant::now();
            for _ in 0..CHUNK {
                decoder.decode(&payload, RecordMeta::default(), &mut chunk)?;
            }
            best = best.min(start.elapsed().as_secs_f64() / CHUNK as f64);
        }
        let bytes = payload.len();
        println!("{format:?}: {bytes} bytes, {:.3} us per event", best * 1e6);
    }
    #[cfg(feature = "schemas")]
    avro(&input)?;
    Ok(())
}

/// The same vector as an Avro array of floats, with the schema from a file.
#[cfg(feature = "schemas")]
#[expect(clippy::print_stdout, reason = "the figures are the result")]
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
    let decoder = Decoder::new(&settings, input, 2)?;
    std::fs::remove_file(file)?;
    // An id of 8 letters, then one block of 128 numbers.
    let mut payload = b"\x10event-17\x80\x02".to_vec();
    for column in 0..WIDTH {
        payload.extend((column as f32 * 0.37).sin().to_le_bytes());
    }
    payload.push(0);
    let mut chunk = Chunk::new(InputRows::new(input, 2));
    let mut best = f64::INFINITY;
    for _ in 0..CHUNKS {
        chunk.rows.clear();
        chunk.events.clear();
        let start = Instant::now();
        for _ in 0..CHUNK {
            decoder.decode(&payload, RecordMeta::default(), &mut chunk)?;
        }
        best = best.min(start.elapsed().as_secs_f64() / CHUNK as f64);
    }
    let bytes = payload.len();
    println!("Avro: {bytes} bytes, {:.3} us per event", best * 1e6);
    Ok(())
}
