//! Alarms that the daemon would have raised, and conditions that it would have shown.

use crate::proto::{self, State};

/// A condition that began at some block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alarm {
    /// Events learned when it began.
    pub(crate) events: u64,
    /// Description for people.
    pub(crate) text: String,
}

/// Alarms in the order they began. One that lasts is reported once.
pub(super) fn alarms(moments: &[State]) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    let mut before: Vec<&str> = Vec::new();
    let mut known: Option<&proto::Alarm> = None;
    for state in moments {
        let alarm = |text: &str| Alarm {
            events: state.events,
            text: text.to_owned(),
        };
        let history = state.alarms.iter().flat_map(|alarms| &alarms.history);
        let is_new = |alarm: &&proto::Alarm| known.is_none_or(|known| alarm.block > known.block);
        let raised: Vec<_> = history.filter(is_new).collect();
        alarms.extend(raised.iter().map(|raised| alarm(&raised.explanation)));
        known = raised.last().copied().or(known);
        let now = active(state);
        let began = now.iter().filter(|(kind, _)| !before.contains(kind));
        alarms.extend(began.map(|(_, text)| alarm(text)));
        before = now.into_iter().map(|(kind, _)| kind).collect();
    }
    alarms
}

/// Conditions at a moment: a kind, which identifies the condition while it lasts, and a description.
fn active(state: &State) -> Vec<(&'static str, String)> {
    let mut active = Vec::new();
    if let Some(gate) = state.gate.as_ref().filter(|gate| gate.refuted) {
        let text = format!("no shares explain the stream: {}", gate.explanation);
        active.push(("classes changed", text));
    }
    if !state.refusal.is_empty() {
        active.push(("refusal", format!("the guard refuses: {}", state.refusal)));
    }
    active
}
