//! Time of one alignment step, and the time that its matrix products alone would take.
//!
//! One step is `--nv` critic steps on fresh batches (map forward, Wasserstein term, penalty on the
//! three point sets, Adam), one map step and one target classifier step (with `--im`, entropy on the
//! target). Buffers are resident; batches are random rows of them. Prints one JSON line.
//!
//! `gemm_floor_ms` is the time of every product of the step alone, by the `gemm` crate, with the same threads and the
//! same split of rows. The engine itself does not use that crate.

use std::{
    collections::BTreeMap,
    hint::black_box,
    sync::Barrier,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use ostar_engine::{
    Architecture, Device, Engine, Generator, Rows,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
    cpu::{CpuEngine, Product},
    engine::{Batch, ClassifierObjective, ClassifierStep, CriticStep, Diversity, MapStep},
    initial_parameters,
    optimiser::Adam,
};

#[derive(Parser)]
#[command(about = "Times one alignment step and prints one JSON line")]
struct Options {
    /// Width of the latent space.
    #[arg(long, default_value_t = 128)]
    d: usize,
    /// Rows of a batch, of the source and of the target each.
    #[arg(long, default_value_t = 200)]
    nb: usize,
    /// Critic steps in an alignment step.
    #[arg(long, default_value_t = 10)]
    nv: usize,
    /// Widths of the critic's hidden layers.
    #[arg(long, value_delimiter = ',', default_value = "500,100")]
    critic: Vec<usize>,
    /// Residual blocks of the map.
    #[arg(long, default_value_t = 10)]
    blocks: usize,
    /// Width of the classifier's two hidden layers.
    #[arg(long, default_value_t = 100)]
    hidden: usize,
    /// Number of classes of the problem.
    #[arg(long, default_value_t = 10)]
    k: usize,
    /// Rows of the source buffer and of the target buffer.
    #[arg(long, default_value_t = 10_000)]
    rows: usize,
    /// Threads of the CPU engine.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How long to measure, in seconds.
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Engine to measure.
    #[arg(long, value_enum, default_value = "cpu")]
    engine: EngineName,
    /// Adds the entropy of target predictions to the classifier step.
    #[arg(long)]
    im: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum EngineName {
    Cpu,
    Candle,
}

/// Draws batches and takes the steps of an alignment step.
struct Loop<'a> {
    options: &'a Options,
    generator: Generator,
    source: Vec<u32>,
    target: Vec<u32>,
    positions: Vec<f64>,
    proportions: Vec<f64>,
    class_weights: Vec<f64>,
}

#[expect(clippy::print_stdout, reason = "the JSON line is the result")]
fn main() -> Result<()> {
    let options = Options::parse();
    let architecture = Architecture {
        classes: options.k,
        latent: options.d,
        encoder: EncoderShape::Identity,
        map: MapShape {
            blocks: options.blocks,
            norm: Norm::Batch,
        },
        critic: CriticShape {
            hidden: options.critic.clone(),
        },
        classifier: ClassifierShape {
            hidden: vec![options.hidden; 2],
            norm: Norm::Batch,
            dropout: 0.0,
        },
    };
    // The CPU engine records the products of an alignment step, whichever engine is timed.
    let mut recorder = cpu_engine(&architecture, &options)?;
    fill_buffers(&mut recorder, &options)?;
    let mut steps = Loop::new(&options);
    recorder.record_products(true);
    steps.iterate(&mut recorder)?;
    let products = recorder.take_products();
    recorder.record_products(false);

    let mut engine: Box<dyn Engine> = match options.engine {
        EngineName::Cpu => Box::new(recorder),
        EngineName::Candle => candle_engine(&architecture)?,
    };
    fill_buffers(engine.as_mut(), &options)?;
    let times = steps.measure(engine.as_mut())?;
    drop(engine);
    let floor = gemm_floor(&products);
    let flops: f64 = products.iter().flatten().map(flops).sum();
    let median = median(times.clone());
    let report = serde_json::json!({
        "engine": if options.engine == EngineName::Cpu { "cpu" } else { "candle" },
        "threads": options.threads,
        "d": options.d,
        "nb": options.nb,
        "nv": options.nv,
        "critic": options.critic,
        "im": options.im,
        "steps": times.len(),
        "median_ms": round(median * 1e3),
        "steps_per_s": round(1.0 / median),
        "gemm_floor_ms": round(floor * 1e3),
        "times_floor": round(median / floor),
        "mflop": round(flops / 1e6),
    });
    println!("{report}");
    Ok(())
}

fn cpu_engine(architecture: &Architecture, options: &Options) -> Result<CpuEngine> {
    let parameters = initial_parameters(architecture, &mut Generator::new(0));
    Ok(CpuEngine::new(
        architecture.clone(),
        &parameters,
        options.threads,
    )?)
}

fn candle_engine(architecture: &Architecture) -> Result<Box<dyn Engine>> {
    let parameters = initial_parameters(architecture, &mut Generator::new(0));
    Ok(Device::Candle.engine(architecture.clone(), &parameters, 1)?)
}

fn fill_buffers(engine: &mut dyn Engine, options: &Options) -> Result<()> {
    if options.rows == 0 || options.nb == 0 {
        bail!("--rows and --nb must be at least 1");
    }
    let mut generator = Generator::new(1);
    let labels: Vec<u32> = (0..options.rows)
        .map(|_| generator.below(options.k) as u32)
        .collect();
    let source: Vec<f32> = labels
        .iter()
        .flat_map(|label| vec![0.3 * *label as f32; options.d])
        .map(|mean| mean + generator.normal() as f32)
        .collect();
    let target: Vec<f32> = (0..source.len())
        .map(|_| 1.2 * generator.normal() as f32)
        .collect();
    engine.set_source(Rows::new(&source[..], options.d)?, &labels)?;
    engine.set_target(0, Rows::new(&target[..], options.d)?)?;
    Ok(())
}

// === impl Loop ===

impl<'a> Loop<'a> {
    fn new(options: &'a Options) -> Self {
        Self {
            options,
            generator: Generator::new(2),
            source: vec![0; options.nb],
            target: vec![0; options.nb],
            positions: vec![0.0; options.nb],
            proportions: vec![1.0 / options.k as f64; options.k],
            class_weights: vec![1.0; options.k],
        }
    }

    fn draw(&mut self) {
        let rows = self.options.rows;
        let generator = &mut self.generator;
        self.source.fill_with(|| generator.below(rows) as u32);
        self.target.fill_with(|| generator.below(rows) as u32);
        self.positions.fill_with(|| generator.uniform());
    }

    fn iterate(&mut self, engine: &mut dyn Engine) -> Result<()> {
        let adam = Adam::with_rate(1e-4);
        for number in 1..=self.options.nv {
            self.draw();
            let step = CriticStep {
                proportions: &self.proportions,
                positions: &self.positions,
                penalty_weight: 10.0,
                map_follows: number == self.options.nv,
                adam,
            };
            engine.critic_step(self.batch(), &step)?;
        }
        let step = MapStep {
            proportions: &self.proportions,
            transport_weight: 0.01,
            adam,
        };
        engine.map_step(self.batch(), &step)?;
        let objective = ClassifierObjective {
            class_weights: &self.class_weights,
            cross_entropy_weight: 1.0,
            entropy_weight: if self.options.im { 0.1 } else { 0.0 },
            diversity: Diversity::None,
        };
        let step = ClassifierStep { objective, adam };
        let batch = Batch {
            source: &self.source,
            target: &self.target,
        };
        engine.classifier_step(batch, &step, &mut self.generator)?;
        Ok(())
    }

    fn batch(&self) -> Batch<'_> {
        Batch {
            source: &self.source,
            target: &self.target,
        }
    }

    /// Times of steps in seconds, after a few steps to warm up.
    fn measure(&mut self, engine: &mut dyn Engine) -> Result<Vec<f64>> {
        for _ in 0..5 {
            self.iterate(engine)?;
        }
        let mut times = Vec::new();
        let end = Instant::now() + Duration::from_secs_f64(self.options.seconds);
        while Instant::now() < end || times.len() < 5 {
            let start = Instant::now();
            self.iterate(engine)?;
            times.push(start.elapsed().as_secs_f64());
        }
        Ok(times)
    }
}

fn flops(product: &Product) -> f64 {
    2.0 * (product.rows * product.width * product.depth) as f64
}

/// Seconds that the products take alone: for each shape the median time with all threads at once, times how often the
/// step has it.
fn gemm_floor(products: &[Vec<Product>]) -> f64 {
    // Products that the threads run at the same time, and how many times.
    let mut together: BTreeMap<Vec<Product>, usize> = BTreeMap::new();
    let count = products.iter().map(Vec::len).max().unwrap_or(0);
    for number in 0..count {
        let at_once = products.iter().filter_map(|list| list.get(number));
        *together.entry(at_once.copied().collect()).or_default() += 1;
    }
    let floor = |(at_once, count): (Vec<Product>, usize)| time_together(&at_once) * count as f64;
    together.into_iter().map(floor).sum()
}

/// Median over rounds of the slowest thread's time for its product.
fn time_together(products: &[Product]) -> f64 {
    const ROUNDS: usize = 41;
    let barrier = Barrier::new(products.len());
    let times: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = products
            .iter()
            .map(|product| scope.spawn(|| time_alone(product, ROUNDS, &barrier)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<f64>>| {
            thread.join().expect("a timing thread does not panic")
        };
        threads.into_iter().map(join).collect()
    });
    let slowest = |round: usize| times.iter().map(|t| t[round]).fold(0.0, f64::max);
    median((0..ROUNDS).map(slowest).collect())
}

fn time_alone(product: &Product, rounds: usize, barrier: &Barrier) -> Vec<f64> {
    let Product {
        rows,
        width,
        depth,
        transposed,
    } = *product;
    let left = vec![1.0f32; rows * depth];
    let right = vec![1.0f32; depth * width];
    let mut out = vec![0.0f32; rows * width];
    // Repeated, so that the measured time is long compared with the clock's resolution and the barrier.
    let repeats = (2e6 / flops(product)).ceil().max(1.0) as usize * 4;
    let time = |out: &mut Vec<f32>| {
        barrier.wait();
        let start = Instant::now();
        for _ in 0..repeats {
            multiply(rows, width, depth, transposed, &left, &right, out);
            black_box(&*out);
        }
        start.elapsed().as_secs_f64() / repeats as f64
    };
    time(&mut out);
    (0..rounds).map(|_| time(&mut out)).collect()
}

/// out = left * right by the `gemm` crate, on row-major matrices.
#[expect(unsafe_code, reason = "the gemm crate takes pointers")]
fn multiply(
    rows: usize,
    width: usize,
    depth: usize,
    transposed: bool,
    left: &[f32],
    right: &[f32],
    out: &mut [f32],
) {
    let (left_column, left_row) = if transposed { (rows, 1) } else { (1, depth) };
    assert!(left.len() == rows * depth && right.len() == depth * width);
    assert!(out.len() == rows * width);
    // SAFETY: the strides stay inside the three buffers, whose lengths were just checked.
    unsafe {
        gemm::gemm(
            rows,
            width,
            depth,
            out.as_mut_ptr(),
            1,
            width as isize,
            false,
            left.as_ptr(),
            left_column as isize,
            left_row as isize,
            right.as_ptr(),
            1,
            width as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
