//! What candidates, reasons and shares that are not known are called.

use crate::proto::{GateState, Mode, State};

/// The candidate whose predictions callers get.
pub(crate) fn candidate(state: &State) -> &str {
    match state.mode() {
        Mode::Auto | Mode::Unspecified => {
            state.gate.as_ref().map_or("frozen", |gate| &gate.candidate)
        }
        Mode::Frozen | Mode::Shadow => "frozen",
        Mode::Prior => "prior",
        Mode::Adapted => "adapted",
    }
}

/// A candidate's name in sentences.
pub(super) fn model_name(candidate: &str) -> &str {
    match candidate {
        "frozen" => "frozen model",
        "prior" => "prior-corrected model",
        "adapted" => "adapted model",
        other => other,
    }
}

/// Instead of shares that are not known.
pub(super) fn untold(gate: &GateState) -> &'static str {
    if gate.refuted {
        "cannot be told: the classes changed"
    } else {
        "cannot be told yet"
    }
}

pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase());
    first.into_iter().flatten().chain(letters).collect()
}

/// Why the guard refuses, in short.
pub(crate) fn refusal(reason: &str) -> &str {
    match reason {
        "non_finite" => "a value in it is not finite",
        "class_movement" => "it moves a class too far",
        "class_deformation" => "it deforms a class too much",
        "held_out_loss" => "it is worse than the frozen model on held-out training rows",
        "ill_conditioned" => "shares cannot be estimated from its predictions",
        "one_class" => "it predicts nearly everything as one class",
        "map_does_not_help" => {
            "training rows are no nearer to the stream after its map than before"
        }
        other => other,
    }
}
