//! The convolution encoder allocates nothing once it is warm. This test is alone in its process, because allocations of
//! all threads are counted.

use std::time::Duration;

use ostar_engine::{
    Architecture, Engine, Generator, Inputs, Rows,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
    cpu::CpuEngine,
    engine::PretrainStep,
    initial_parameters,
    optimiser::Adam,
};
use parking_lot::Mutex;

use crate::counting::allocations;

const WARM_UP: usize = 3;

pub(crate) fn a_warm_convolution_allocates_nothing() {
    // parking_lot allocates its table of waiting threads when a thread first has to wait.
    let lock = Mutex::new(());
    let held = lock.lock();
    assert!(lock.try_lock_for(Duration::from_millis(1)).is_none());
    drop(held);
    let architecture = Architecture {
        classes: 3,
        latent: 8,
        encoder: EncoderShape::Convolution { filters: [6, 5] },
        map: MapShape {
            blocks: 0,
            norm: Norm::None,
        },
        critic: CriticShape { hidden: vec![] },
        classifier: ClassifierShape {
            hidden: vec![12],
            norm: Norm::Batch,
            dropout: 0.0,
        },
    };
    let mut generator = Generator::new(1);
    let parameters = initial_parameters(&architecture, &mut generator);
    let width = architecture.encoder_inputs();
    let images: Vec<f32> = (0..7 * width).map(|_| generator.normal() as f32).collect();
    let labels: Vec<u32> = (0..7).map(|row| row % 3).collect();
    let class_weights = [1.0; 3];
    let step = PretrainStep {
        class_weights: &class_weights,
        encoder_adam: Adam::with_rate(1e-3),
        classifier_adam: Adam::with_rate(1e-3),
    };
    for threads in [1, 2] {
        let mut engine = CpuEngine::new(architecture.clone(), &parameters, threads).unwrap();
        let mut latents = Vec::new();
        let mut both = |engine: &mut CpuEngine, generator: &mut Generator| {
            let inputs = Inputs::Dense(Rows::new(&images[..], width).unwrap());
            engine
                .pretrain_step(inputs, &labels, &step, generator)
                .unwrap();
            engine.encode(inputs, &mut latents).unwrap();
        };
        (0..WARM_UP).for_each(|_| both(&mut engine, &mut generator));
        let count = allocations(|| (0..5).for_each(|_| both(&mut engine, &mut generator)));
        assert_eq!(count, 0, "{threads} threads");
    }
}
