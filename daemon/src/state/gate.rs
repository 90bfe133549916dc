//! What the gate decided, and why.

use ostar_method::gate::{self, Decided, ShapeTests};

use super::with_name;
use crate::{
    proto::{GateDecision, GateState, GateTest, LabelDuel, LabelEvidence},
    status::Status,
};

pub(super) fn state(status: &Status, names: &[String]) -> GateState {
    let verdict = status.gate.verdict();
    let tests = verdict.prior.iter().flat_map(ShapeTests::named);
    let tests = tests.map(|(name, test)| GateTest {
        name: name.to_owned(),
        statistic: test.statistic,
        limit: test.limit,
    });
    let decision = |decided: &Decided| GateDecision {
        block: decided.block,
        candidate: decided.candidate.to_string(),
        explanation: with_name(decided.reason.to_string(), names),
    };
    GateState {
        candidate: verdict.candidate.to_string(),
        reason: verdict.reason.label().to_owned(),
        explanation: with_name(verdict.reason.to_string(), names),
        since_block: verdict.since_block,
        refuted: verdict.refuted,
        proportions_unknown: status
            .block
            .as_ref()
            .is_some_and(|block| !block.served.known),
        tests: tests.collect(),
        history: status.gate.history().map(decision).collect(),
        adapted_ready: verdict.adapted_ready,
        labels: verdict.labels.as_ref().map(evidence),
        prior_strength: verdict.prior_strength,
        window_rows: verdict.prior.as_ref().map(|tests| tests.rows),
    }
}

fn evidence(evidence: &gate::LabelEvidence) -> LabelEvidence {
    let duel = |duel: &gate::DuelReport| LabelDuel {
        challenger: duel.challenger.to_string(),
        incumbent: duel.incumbent.to_string(),
        right: duel.right,
        wrong: duel.wrong,
        probability: duel.probability,
        mean_gain: duel.mean_gain,
        challenger_wealth: duel.challenger_wealth,
        incumbent_wealth: duel.incumbent_wealth,
    };
    LabelEvidence {
        objective: objective(evidence.objective).to_owned(),
        labels: evidence.labels,
        of_one_class: evidence.of_one_class,
        adapted_open: evidence.adapted_open,
        duels: evidence.duels.iter().map(duel).collect(),
    }
}

/// As the configuration writes it.
pub(crate) fn objective(objective: gate::Objective) -> &'static str {
    match objective {
        gate::Objective::Class => "class",
        gate::Objective::Probability => "probability",
    }
}
