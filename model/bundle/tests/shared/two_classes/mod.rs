//! Two Gaussian classes, and bundles of models that tell them apart.

// Each test file is its own crate and uses a part of this.
#![allow(dead_code)]

use ostar_bundle::{
    Bundle, Description, FORMAT_VERSION, Input, SourceBuffer,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::{Generator, Inputs, Result, Rows};
use ostar_method::{
    learner::{BlockReport, Learner, LearnerSettings, StepPlan},
    proportions::{LabelProportions, Temperature},
};

/// Latents of two classes around -1 and 1, and their labels. `proportion` is that of the second class.
pub(crate) fn draw(
    rows: usize,
    width: usize,
    proportion: f64,
    generator: &mut Generator,
) -> (Vec<f32>, Vec<u32>) {
    let (mut latents, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let label = u32::from(generator.uniform() < proportion);
        let mean = 2.0 * f64::from(label) - 1.0;
        latents.extend((0..width).map(|_| (mean + generator.normal()) as f32));
        labels.push(label);
    }
    (latents, labels)
}

/// A model that was trained on 2,000 latents, half of each class.
pub(crate) fn bundle(width: usize) -> Bundle {
    let (latents, labels) = draw(2000, width, 0.5, &mut Generator::new(1));
    fitted(&latents, width, &labels)
}

pub(crate) fn fitted(latents: &[f32], width: usize, labels: &[u32]) -> Bundle {
    let classes = ["ham".to_owned(), "spam".to_owned()];
    let labelled = Labelled {
        classes: &classes,
        labels,
        rows: LabelledRows::Latents(Rows::new(latents, width).unwrap()),
    };
    fit(labelled, &FitSettings::default(), &mut |_| ()).unwrap()
}

/// Five steps a block while nothing changes.
pub(crate) const STEPS: StepPlan = StepPlan {
    usual: 5,
    always: false,
};

/// Learns from rows as one block, of which nothing else is known.
pub(crate) fn learn(learner: &mut Learner, inputs: Inputs<'_>) -> Result<BlockReport> {
    let scores = learner.model().scores(inputs)?;
    learner.follow(scores.all(), None)?;
    learner.close(&[], &[])
}

/// A model whose events are logits; `probabilities` are its predictions for held-out rows.
pub(crate) fn black_box(probabilities: Vec<f32>, labels: Vec<u32>) -> Bundle {
    let description = Description {
        format_version: FORMAT_VERSION,
        name: "box".into(),
        classes: vec!["ham".into(), "spam".into()],
        input: Input::Logits,
        model: None,
        black_box: None,
        training_proportions: LabelProportions::uniform(2),
        temperature: Temperature::ONE,
    };
    let held_out = vec![true; labels.len()];
    let source = SourceBuffer::new(probabilities, 2, labels, held_out).unwrap();
    Bundle::new(description, Default::default(), source).unwrap()
}

/// A learner that is quick on rows like these.
pub(crate) fn settings() -> LearnerSettings {
    LearnerSettings {
        batch: 50,
        window: 1000,
        threads: 1,
        ..LearnerSettings::default()
    }
}
