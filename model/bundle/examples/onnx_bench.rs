//! Times the encoder of a bundle on a batch of rows, on one thread: `make bench-onnx` compares it with onnxruntime.
//!
//! `onnx_bench BUNDLE ROWS SECONDS` prints the median time of a batch in microseconds.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ostar_bundle::{Bundle, Input};
use ostar_engine::{Inputs, Rows, evaluate::Scratch};

/// The daemon's. The system's returns the memory of every run and clears it again for the next.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[expect(clippy::print_stdout, reason = "the figure is the result")]
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, rows, seconds] = &arguments[..] else {
        bail!("usage: onnx_bench BUNDLE ROWS SECONDS");
    };
    let rows: usize = rows.parse().context("ROWS")?;
    let length = Duration::from_secs_f64(seconds.parse().context("SECONDS")?);
    let bundle = Bundle::load(folder.as_ref())?;
    let encoder = bundle.encoder()?.context("the bundle has an encoder")?;
    let Input::Dense { width } = bundle.description().input else {
        bail!("the bundle takes dense features");
    };
    let values: Vec<f32> = (0..rows * width).map(|n| (n as f32 * 0.37).sin()).collect();
    let inputs = Inputs::Dense(Rows::new(&values[..], width)?);
    let (mut scratch, mut latents) = (Scratch::default(), Vec::new());
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed() < length || times.len() < 10 {
        let before = Instant::now();
        encoder.encode(inputs, &mut scratch, &mut latents)?;
        times.push(before.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    println!("{:.1}", times[times.len() / 2]);
    Ok(())
}
