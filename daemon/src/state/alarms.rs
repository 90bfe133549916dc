//! What has left its usual level, and the inputs beside training.

use ostar_method::alarms::{self, AlarmKind, AlarmReport, FieldStatus};

use crate::proto::{Alarm, AlarmSeries, Alarms, InputField};

/// `None` if alarms are off and no inputs are watched.
pub(super) fn state(report: &AlarmReport, names: &[String]) -> Option<Alarms> {
    if report.series.is_empty() && report.inputs.is_empty() {
        return None;
    }
    let class = |kind: AlarmKind| {
        let class = kind.class().and_then(|class| names.get(class));
        class.cloned().unwrap_or_default()
    };
    let series = report.series.iter().map(|series| AlarmSeries {
        alarm: series.kind.name().to_owned(),
        class: class(series.kind),
        statistic: series.statistic,
        limit: series.limit,
        firing: series.firing,
        effective_rows: series.effective_rows,
    });
    let alarm = |alarm: &alarms::Alarm| Alarm {
        alarm: alarm.kind.name().to_owned(),
        class: class(alarm.kind),
        block: alarm.block,
        since_block: alarm.since_block,
        before: alarm.before,
        after: alarm.after,
        explanation: alarm.in_words(names),
    };
    Some(Alarms {
        series: series.collect(),
        history: report.history.iter().map(alarm).collect(),
        blocks_per_week: report.blocks_per_week,
        inputs: report.inputs.iter().map(input).collect(),
    })
}

fn input(field: &FieldStatus) -> InputField {
    let report = &field.report;
    InputField {
        name: report.name.clone(),
        missing: report.missing,
        training_missing: report.training_missing,
        unknown: report.unknown,
        beyond: report.beyond,
        distance: report.distance,
        noise_floor: report.noise_floor,
        broken: field.broken,
        since_block: field.since_block,
        explanation: report.to_string(),
        statistic: field.statistic,
        limit: Some(field.limit).filter(|limit| limit.is_finite()),
    }
}
