//! Shares follow a slow stream.

use tokio::sync::watch;

use super::*;
use crate::{
    config::Config,
    current::{Current, ServingMode},
    pipeline::blocks::tests::{chunk, model},
    serving::fixture,
};

#[test]
fn at_one_event_a_second_shares_move_long_before_a_block_is_full() {
    let (bundle, section) = (fixture::bundle(), Config::default().learner);
    let settings = LearnerSettings::default();
    let group = settings.group;
    let learner = load_learner(Device::Cpu, &bundle, settings, None).unwrap();
    let current = Current::new(learner.snapshot(), Version::default(), ServingMode::Auto);
    let publisher = Publisher {
        current: Arc::clone(&current),
        metrics: fixture::metrics(&bundle),
        status: watch::channel(Status::default()).0,
    };
    let mut block_learner = BlockLearner::new(learner, &section, 1, None, publisher);
    let share = || current.load().snapshot.whole_proportions()[1];
    let (before, revision) = (share(), block_learner.revision());
    let model = model();
    // Each event comes in a chunk of its own.
    for offset in 0..2 * group as i64 {
        let one = chunk(&model, &[(0, offset)]);
        let taken = block_learner.take(&one, || Pace::Step, |_| ControlFlow::Continue(()));
        assert!(taken.unwrap().is_continue());
        let groups = (offset + 1) as u64 / group as u64;
        assert_eq!(
            block_learner.revision(),
            revision + groups,
            "event {offset}"
        );
    }
    assert!(share() > before + 0.1, "from {before} to {}", share());
    assert!(2 * group < section.block);
    assert_eq!(block_learner.position().events, 0, "no block was full");
}
