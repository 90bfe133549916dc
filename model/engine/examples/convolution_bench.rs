//! Time of one training batch of the digits encoder. `scripts/torch_convolution.py` does the same in PyTorch.

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use ostar_engine::{
    Architecture, Engine, Generator, Inputs, Rows,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
    cpu::CpuEngine,
    engine::PretrainStep,
    initial_parameters,
    optimiser::Adam,
};

#[derive(Parser)]
#[command(about = "Milliseconds of a training batch of the convolution encoder")]
struct Options {
    /// Images in a training batch.
    #[arg(long, default_value_t = 400)]
    images: usize,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
}

#[expect(clippy::print_stdout, reason = "the figure is the result")]
fn main() -> Result<()> {
    let options = Options::parse();
    let architecture = Architecture {
        classes: 10,
        latent: 128,
        encoder: EncoderShape::Convolution { filters: [64, 64] },
        map: MapShape {
            blocks: 0,
            norm: Norm::None,
        },
        critic: CriticShape { hidden: vec![] },
        classifier: ClassifierShape {
            hidden: vec![100, 100],
            norm: Norm::Batch,
            dropout: 0.0,
        },
    };
    let mut generator = Generator::new(1);
    let parameters = initial_parameters(&architecture, &mut generator);
    let width = architecture.encoder_inputs();
    let mut engine = CpuEngine::new(architecture, &parameters, options.threads)?;
    let images: Vec<f32> = (0..options.images * width)
        .map(|_| generator.normal() as f32)
        .collect();
    let labels: Vec<u32> = (0..options.images).map(|row| (row % 10) as u32).collect();
    let step = PretrainStep {
        class_weights: &[1.0; 10],
        encoder_adam: Adam::with_rate(1e-4),
        classifier_adam: Adam::with_rate(1e-4),
    };
    let mut times = Vec::new();
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    while Instant::now() < end || times.len() < 7 {
        let start = Instant::now();
        let inputs = Inputs::Dense(Rows::new(&images[..], width)?);
        engine.pretrain_step(inputs, &labels, &step, &mut generator)?;
        times.push(1e3 * start.elapsed().as_secs_f64());
    }
    // Buffers grow in the first steps.
    let mut times = times.split_off(2);
    times.sort_by(f64::total_cmp);
    println!(
        "{{\"threads\": {}, \"iterations\": {}, \"median_ms\": {:.3}, \"least_ms\": {:.3}}}",
        options.threads,
        times.len(),
        times[times.len() / 2],
        times[0],
    );
    Ok(())
}
