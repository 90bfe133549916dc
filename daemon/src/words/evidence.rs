//! Tables of what decided: tests, labels, alarms and earlier decisions.

use super::{answers::measure, listing::Listing};
use crate::proto::{AlarmSeries, GateDecision, GateTest, LabelDuel, LabelEvidence};

/// The gate's tests beside their limits.
pub(super) fn tests(tests: &[GateTest]) -> Listing {
    let row = |test: &GateTest| {
        let GateTest {
            name,
            statistic,
            limit,
        } = test;
        let result = if statistic > limit {
            format!("fails, {:.1} times its limit", statistic / limit)
        } else if *limit > 0.0 {
            format!("passes, at {:.0} % of its limit", 100.0 * statistic / limit)
        } else {
            "passes".to_owned()
        };
        let compares = match name.as_str() {
            "scores" => "the frozen model's scores with those of training at the best shares",
            "latents" => "the latents with those of training at the same shares",
            "support" => "how many rows lie where training data has none",
            _ => "",
        };
        [
            name.clone(),
            measure(test, *statistic),
            measure(test, *limit),
            result,
            compares.to_owned(),
        ]
    };
    let head = ["test", "measured", "limit", "result", "compares"];
    Listing::new(&head, tests.iter().map(row))
}

/// What labels say of each two candidates.
pub(super) fn duels(evidence: &LabelEvidence) -> Listing {
    let by_class = evidence.objective != "probability";
    let figures: &[&str] = if by_class {
        &["right", "wrong", "chance to be better"]
    } else {
        &["mean gain in log loss"]
    };
    let row = |duel: &LabelDuel| {
        let mut cells = vec![duel.challenger.clone(), duel.incumbent.clone()];
        if by_class {
            cells.extend([
                format!("{:.1}", duel.right),
                format!("{:.1}", duel.wrong),
                format!("{:.2}", duel.probability),
            ]);
        } else {
            cells.push(format!("{:+.4}", duel.mean_gain));
        }
        cells.push(format!("{:.1} of 20", duel.challenger_wealth));
        cells
    };
    let head = [&["candidate", "against"], figures, &["bets on it became"]].concat();
    Listing::new(&head, evidence.duels.iter().map(row))
}

/// Every series beside the limit at which it raises an alarm.
pub(super) fn alarms(series: &[AlarmSeries]) -> Listing {
    let row = |series: &AlarmSeries| {
        let name = match series.class.as_str() {
            "" => series.alarm.clone(),
            class => format!("{} of {class}", series.alarm),
        };
        let worth = series.effective_rows;
        [
            name,
            format!("{:.1}", series.statistic),
            format!("{:.1}", series.limit),
            if series.firing { "stands" } else { "none" }.to_owned(),
            worth.map_or_else(String::new, |rows| format!("{rows:.0} independent events")),
        ]
    };
    let head = ["series", "statistic", "limit", "alarm", "a block is worth"];
    Listing::new(&head, series.iter().map(row))
}

/// Changes of what mode auto serves, the newest first.
pub(super) fn decisions(history: &[GateDecision]) -> Listing {
    let row = |decision: &GateDecision| {
        [
            decision.block.to_string(),
            decision.candidate.clone(),
            decision.explanation.clone(),
        ]
    };
    let head = ["after block", "mode auto serves", "because"];
    Listing::new(&head, history.iter().rev().map(row))
}
