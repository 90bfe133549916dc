//! Labels that answer requests, well and badly, on generated streams.

use anyhow::Result;
use ostar_experiments::{
    gate::{
        AUTO, Answering, Outcome, Replay,
        failures::{CLASSES, Failure},
        replay,
    },
    stream::train_classes,
};

fn outcome(failure: Failure, answering: Answering) -> Result<Outcome> {
    let (source, stream) = failure.generate(1);
    let bundle = train_classes(&source, CLASSES, 1)?;
    let how = Replay {
        steps: 0,
        always: false,
        adapted_without_labels: false,
        answering,
        seed: 1,
    };
    replay(&bundle, &stream, how)
}

const TEN: Answering = Answering {
    requests: 10,
    ..Answering::NONE
};

/// What `auto` gains over the frozen model, in points.
fn gain(outcome: &Outcome) -> f64 {
    outcome.accuracy(AUTO) - outcome.accuracy(0)
}

/// Without labels a class that moves along the line to another looks like label shift, and correction loses. Ten labels a
/// block do not mend that on this stream; they must not do harm either.
#[test]
fn labels_do_no_harm_where_a_class_moves_along_the_line() -> Result<()> {
    let blind = outcome(Failure::AlongTheLine, Answering::NONE)?;
    let labelled = outcome(Failure::AlongTheLine, TEN)?;
    assert!(gain(&blind) < -1.0, "{}", gain(&blind));
    assert!(
        gain(&labelled) > gain(&blind) - 0.1,
        "{} after {}",
        gain(&labelled),
        gain(&blind)
    );
    Ok(())
}

#[test]
fn bad_labels_cost_no_more_than_half_a_point() -> Result<()> {
    let ways = [
        Answering {
            flipped: 0.1,
            ..TEN
        },
        Answering {
            only_class: Some(2),
            ..TEN
        },
        // Longer than the stream, as a day is for most of it.
        Answering { late: 20, ..TEN },
        Answering {
            careless: true,
            ..TEN
        },
        Answering {
            requests: 10,
            late: 1_000,
            ..TEN
        },
    ];
    for failure in [Failure::NoShift, Failure::NewClass, Failure::SlowRotation] {
        for how in ways {
            let outcome = outcome(failure, how)?;
            let lost = gain(&outcome);
            assert!(lost > -0.5, "{failure:?} {how:?}: {lost:+.2}");
        }
    }
    Ok(())
}
