//! Learns to map one Gaussian onto another, from unpaired points.

use anyhow::{Result, ensure};
use ostar_engine::{
    Architecture, Engine, Generator, Rows,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
    cpu::CpuEngine,
    engine::{Batch, CriticStep, MapStep},
    initial_parameters,
    optimiser::{Adam, RateSchedule},
};

const ROWS: usize = 1000;
const BATCH: usize = 128;
const STEPS: u64 = 800;
const CRITIC_STEPS: usize = 5;

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<()> {
    let mut generator = Generator::new(1);
    let mut gaussian = |mean: [f64; 2], deviation: f64| -> Vec<f32> {
        (0..2 * ROWS)
            .map(|i| (mean[i % 2] + deviation * generator.normal()) as f32)
            .collect()
    };
    let source = gaussian([0.0, 0.0], 1.0);
    let target = gaussian([2.0, -1.0], 0.5);
    // Two classes, the left and the right half of the source, with equal proportions in the target.
    let labels: Vec<u32> = source.chunks(2).map(|z| u32::from(z[0] > 0.0)).collect();
    let proportions = [0.5, 0.5];

    let architecture = Architecture {
        classes: 2,
        latent: 2,
        encoder: EncoderShape::Identity,
        map: MapShape {
            blocks: 3,
            norm: Norm::None,
        },
        critic: CriticShape {
            hidden: vec![64, 64],
        },
        classifier: ClassifierShape {
            hidden: vec![],
            norm: Norm::None,
            dropout: 0.0,
        },
    };
    let parameters = initial_parameters(&architecture, &mut generator);
    let mut engine = CpuEngine::new(architecture, &parameters, 1)?;
    engine.set_source(Rows::new(source.as_slice(), 2)?, &labels)?;
    engine.set_target(0, Rows::new(target.as_slice(), 2)?)?;

    let draw = |generator: &mut Generator| -> [u32; BATCH] {
        std::array::from_fn(|_| generator.below(ROWS) as u32)
    };
    // Decaying rates damp the oscillation between critic and map.
    let schedule = RateSchedule::Decaying { steps: STEPS };
    for step_number in 0..STEPS {
        for _ in 0..CRITIC_STEPS {
            let batch = Batch {
                source: &draw(&mut generator),
                target: &draw(&mut generator),
            };
            let step = CriticStep {
                proportions: &proportions,
                positions: &[0; BATCH].map(|_| generator.uniform()),
                penalty_weight: 10.0,
                map_follows: false,
                adam: Adam::with_rate(schedule.rate(0.01, step_number)),
            };
            engine.critic_step(batch, &step)?;
        }
        let batch = Batch {
            source: &draw(&mut generator),
            target: &draw(&mut generator),
        };
        let step = MapStep {
            proportions: &proportions,
            transport_weight: 0.01,
            adam: Adam::with_rate(schedule.rate(0.005, step_number)),
        };
        let report = engine.map_step(batch, &step)?;
        if step_number % 200 == 100 {
            println!("step {step_number}: distance {:.2}", report.distance);
        }
    }

    let mut mapped = Vec::new();
    engine.transport(Rows::new(source.as_slice(), 2)?, &mut mapped)?;
    for (axis, (mean, deviation)) in [(2.0, 0.5), (-1.0, 0.5)].into_iter().enumerate() {
        let along: Vec<f32> = mapped.iter().skip(axis).step_by(2).copied().collect();
        let found = along.iter().sum::<f32>() / ROWS as f32;
        let variance = along.iter().map(|z| (z - found).powi(2)).sum::<f32>() / ROWS as f32;
        println!(
            "axis {axis}: mean {found:.2} of {mean}, deviation {:.2} of {deviation}",
            variance.sqrt()
        );
        ensure!((found - mean).abs() < 0.25, "expected a mean near {mean}");
    }
    Ok(())
}
