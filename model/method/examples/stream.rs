//! Deploy, stream, verdict.

use ostar_engine::{Generator, Inputs, Result, Rows};
use ostar_method::learner::{Learner, LearnerSettings};
use ostar_method::{Candidate, Deployed, proportions::LabelProportions};

/// What a spam filter says of mails, of which this share is spam: the probabilities of ham and spam, and the truth.
fn filter(mails: usize, spam: f64, generator: &mut Generator) -> (Vec<f32>, Vec<u32>) {
    let mail = |_| {
        let label = u32::from(generator.uniform() < spam);
        let evidence = generator.normal() + if label == 1 { 1.0 } else { -1.0 };
        let probability = (1.0 / (1.0 + (-2.0 * evidence).exp())) as f32;
        ([1.0 - probability, probability], label)
    };
    let (probabilities, labels): (Vec<_>, _) = (0..mails).map(mail).unzip();
    (probabilities.concat(), labels)
}

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<()> {
    let mut generator = Generator::new(1);
    // Deploy: half of the mails were spam in training. These the filter was not trained on.
    let (held_out, labels) = filter(2_000, 0.5, &mut generator);
    let deployed = Deployed::black_box(&held_out, labels, LabelProportions::uniform(2))?;
    let mut learner = Learner::new(&deployed, LearnerSettings::default())?;
    // Stream: now 80 % are spam, and nobody says which.
    for _ in 0..10 {
        let (mails, _) = filter(500, 0.8, &mut generator);
        let mails = Inputs::Dense(Rows::new(&mails[..], 2)?);
        learner.follow(learner.model().scores(mails)?.all(), None)?;
        let now = learner.close(&[], &[])?.served;
        println!("spam: {:.3}, {:.3?}", now.proportions[1], now.intervals[1]);
    }
    // Verdict: the shares moved and nothing else did, so predictions are corrected for them.
    assert_eq!(learner.gate().verdict().candidate, Candidate::Prior);
    assert!((learner.proportions()[1] - 0.8).abs() < 0.05);
    Ok(())
}
