//! Times the parts of an alignment step at the paper's sizes for digits, on two threads.

#[path = "../tests/shared/alignment/mod.rs"]
mod alignment;

use criterion::{Criterion, criterion_group, criterion_main};
use ostar_engine::{
    Architecture, Result,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
};

use alignment::Alignment;

fn digits() -> Architecture {
    Architecture {
        classes: 10,
        latent: 128,
        encoder: EncoderShape::Identity,
        map: MapShape {
            blocks: 10,
            norm: Norm::Batch,
        },
        critic: CriticShape {
            hidden: vec![500, 100],
        },
        classifier: ClassifierShape {
            hidden: vec![100, 100],
            norm: Norm::Batch,
            dropout: 0.0,
        },
    }
}

fn parts(criterion: &mut Criterion) {
    let mut alignment = Alignment::new(&digits(), 200, 2, 1).expect("the architecture is valid");
    alignment.draw();
    let mut bench = |name: &str, part: fn(&mut Alignment) -> Result<()>| {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| part(&mut alignment).expect("the data are finite"));
        });
    };
    bench("critic step", |a| a.critic_step().map(drop));
    bench("map step", |a| a.map_step().map(drop));
    bench("classifier step", |a| a.classifier_step(false).map(drop));
    bench("score of 256 rows", Alignment::score);
}

criterion_group!(benches, parts);
criterion_main!(benches);
