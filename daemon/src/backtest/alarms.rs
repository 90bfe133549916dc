//! Alarms that the daemon would have raised, and conditions that it would have shown.

use ostar_method::diagnostics::Decision;

use super::report::Moment;

/// A condition that began at some block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alarm {
    /// Events learned when it began.
    pub(crate) events: u64,
    /// Description for people.
    pub(crate) text: String,
}

/// Alarms in the order they began. One that lasts is reported once.
pub(super) fn alarms(classes: &[String], moments: &[Moment]) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    let mut before: Vec<String> = Vec::new();
    for moment in moments {
        let raised = moment.status.block.iter();
        for alarm in raised.flat_map(|block| &block.alarms.raised) {
            alarms.push(Alarm {
                events: moment.status.events,
                text: alarm.in_words(classes),
            });
        }
        let now = active(moment);
        for (kind, text) in &now {
            if !before.contains(kind) {
                alarms.push(Alarm {
                    events: moment.status.events,
                    text: text.clone(),
                });
            }
        }
        before = now.into_iter().map(|(kind, _)| kind).collect();
    }
    alarms
}

/// Conditions at a moment: a kind, which identifies the condition while it lasts, and a description.
fn active(moment: &Moment) -> Vec<(String, String)> {
    let mut active = Vec::new();
    if let Some(block) = &moment.status.block
        && block.verdict.refuted
    {
        active.push((
            "classes changed".to_owned(),
            format!("no shares explain the stream: {}", block.verdict.reason),
        ));
    }
    if let Some(refresh) = &moment.status.refresh
        && let Decision::Refuse(reason) = &refresh.decision
    {
        active.push(("refusal".to_owned(), format!("the guard refuses: {reason}")));
    }
    active
}
