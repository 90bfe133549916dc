//! Logs decisions of the gate and the guard when they change.

use ostar_method::{
    diagnostics::Decision,
    gate::{GateState, Verdict},
    learner::RefreshReport,
};
use tracing::{info, warn};

/// Whether the gate has decided anything yet.
fn decided(gate: &GateState) -> bool {
    gate.history().next().is_some()
}

/// Logs the first decision of the gate, and those that change the candidate or how far prior correction goes.
pub(super) fn log_verdict(before: &GateState, now: &Verdict) {
    if decided(before) && !now.serves_otherwise_than(before.verdict()) {
        return;
    }
    info!(
        candidate = %now.candidate,
        prior_strength = now.prior_strength,
        reason = %now.reason,
        block = now.since_block,
        "gate chose what mode auto serves"
    );
}

/// Logs restored weights, and decisions of the guard that differ from the one before.
pub(super) fn log_decision(before: Option<&RefreshReport>, now: &RefreshReport) {
    if now.restored {
        warn!(steps = now.steps, decision = ?now.decision, "restored the last good weights");
    }
    if before.is_some_and(|before| before.decision == now.decision) {
        return;
    }
    match &now.decision {
        Decision::Serve => info!(steps = now.steps, "guard accepted the adapted state"),
        Decision::Refuse(reason) => warn!(
            steps = now.steps,
            %reason,
            "guard refused the adapted state, serving the last good one"
        ),
    }
}
