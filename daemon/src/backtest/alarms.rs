//! Alarms that the daemon would have raised.

use ostar_model::{diagnostics::Decision, proportions::LabelProportions};

use super::report::Moment;

/// A condition that began at some block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alarm {
    /// Events learned when it began.
    pub(crate) events: u64,
    /// Description for people.
    pub(crate) text: String,
}

/// A share has moved when its whole interval differs from the training share by this factor.
const SHARE_FACTOR: f64 = 1.5;

/// Alarms in the order they began. One that lasts is reported once.
pub(super) fn alarms(
    classes: &[String],
    training: &LabelProportions,
    moments: &[Moment],
) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    let mut before: Vec<String> = Vec::new();
    for moment in moments {
        let now = active(classes, training, moment);
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

/// The alarms that are active at a moment: a kind, which identifies the alarm while it lasts, and a description.
fn active(
    classes: &[String],
    training: &LabelProportions,
    moment: &Moment,
) -> Vec<(String, String)> {
    let mut active = Vec::new();
    if let Some(block) = &moment.status.block {
        let estimate = &block.served;
        if block.verdict.refuted {
            active.push((
                "classes changed".to_owned(),
                format!("no shares explain the stream: {}", block.verdict.reason),
            ));
        }
        // Shares that cannot be told raise nothing: their intervals are the whole range.
        for (class, name) in classes.iter().enumerate() {
            let (interval, was) = (estimate.intervals[class], training[class]);
            let direction = match (interval.low, interval.high) {
                (low, _) if low > was * SHARE_FACTOR => "up",
                (_, high) if high * SHARE_FACTOR < was => "down",
                _ => continue,
            };
            let share = estimate.proportions[class];
            active.push((
                format!("share {name} {direction}"),
                format!("the share of {name} is {direction}: {was:.3} in training, now {share:.3}"),
            ));
        }
    }
    if let Some(refresh) = &moment.status.refresh
        && let Decision::Refuse(reason) = &refresh.decision
    {
        active.push(("refusal".to_owned(), format!("the guard refuses: {reason}")));
    }
    active
}
