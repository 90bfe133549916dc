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

fn outcome_of(failure: Failure, seed: u64, answering: Answering) -> Result<Outcome> {
    let (source, stream) = failure.generate(seed);
    let bundle = train_classes(&source, CLASSES, seed)?;
    let how = Replay {
        steps: 0,
        always: false,
        adapted_without_labels: false,
        rivals: true,
        answering,
        seed,
    };
    replay(&bundle, &stream, how)
}

const TEN: Answering = Answering {
    requests: 10,
    ..Answering::NONE
};

/// Bad labels: wrong, of one class, too late, twice and for events that never were, never.
fn ways() -> [Answering; 5] {
    [
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
    ]
}

/// What `auto` gains over the frozen model, in points.
fn gain(outcome: &Outcome) -> f64 {
    outcome.accuracy(AUTO) - outcome.accuracy(0)
}

/// Without labels a class that moves along the line to another looks like label shift, and correction loses. Where candidates
/// disagree labels are nearly all of one class there, and yet they are an honest answer: ten a block mend a part of the
/// loss. However bad they are, no more is lost than without.
#[test]
fn labels_mend_a_part_where_a_class_moves_along_the_line() -> Result<()> {
    let mean = |how: Answering| -> Result<f64> {
        let gains: Vec<f64> = (0..3)
            .map(|seed| Ok(gain(&outcome_of(Failure::AlongTheLine, seed, how)?)))
            .collect::<Result<_>>()?;
        Ok(gains.iter().sum::<f64>() / 3.0)
    };
    let blind = mean(Answering::NONE)?;
    assert!(blind < -1.0, "{blind}");
    let labelled = mean(TEN)?;
    assert!(labelled > blind + 0.2, "{labelled:+.2} after {blind:+.2}");
    for how in ways() {
        let gain = mean(how)?;
        assert!(gain > blind - 0.1, "{how:?}: {gain:+.2} after {blind:+.2}");
    }
    Ok(())
}

#[test]
fn bad_labels_cost_no_more_than_half_a_point() -> Result<()> {
    for failure in [Failure::NoShift, Failure::NewClass, Failure::SlowRotation] {
        for how in ways() {
            let outcome = outcome_of(failure, 1, how)?;
            let lost = gain(&outcome);
            assert!(lost > -0.5, "{failure:?} {how:?}: {lost:+.2}");
        }
    }
    Ok(())
}
