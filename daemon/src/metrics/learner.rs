//! What the learner counts. Its figures are those of the state.

use std::time::Duration;

use ostar_method::{
    alarms::AlarmKind,
    diagnostics::{Decision, Reason},
    learner::{BlockReport, RefreshReport},
};

use super::families::{Buckets, metrics};

metrics! {
    struct LearnerMetrics {
        blocks = counter("ostar_blocks_total", "Blocks of events learned from.");
        events = counter("ostar_learned_events_total", "Events learned from.");
        steps = counter("ostar_steps_total", "Alignment steps taken.");
        skipped_steps = counter("ostar_steps_skipped_total", "Alignment steps skipped because the learner was behind.");
        step_duration = histogram("ostar_step_duration_seconds", "Time of an alignment step.", Buckets::Seconds);
        refusals = counters_from_zero("ostar_guard_refusals_total", "States that the guard refused, by reason.", "reason", Reason::LABELS);
        restores = counter("ostar_restores_total", "Times the last good weights were restored.");
        alarms = counters_from_zero("ostar_alarms_total", "Alarms raised.", "alarm", [AlarmKind::Share(0).name(), AlarmKind::Shape.name()]);
        broken_inputs = counter("ostar_input_alarms_total", "Fields that broke.");
    }
}

impl LearnerMetrics {
    pub(crate) fn observe_block(&self, block: &BlockReport) {
        self.blocks.inc();
        self.events.inc_by(block.rows as u64);
        for alarm in &block.alarms.raised {
            self.alarms.with_label_values(&[alarm.kind.name()]).inc();
        }
        self.broken_inputs.inc_by(block.alarms.broken.len() as u64);
    }

    pub(crate) fn observe_step(&self, duration: Duration) {
        self.steps.inc();
        self.step_duration.observe(duration.as_secs_f64());
    }

    pub(crate) fn observe_refresh(&self, refresh: &RefreshReport) {
        if let Decision::Refuse(reason) = &refresh.decision {
            self.refusals.with_label_values(&[reason.label()]).inc();
        }
        if refresh.restored {
            self.restores.inc();
        }
    }
}
