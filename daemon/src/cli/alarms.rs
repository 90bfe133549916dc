//! What `explain` and `state` print of alarms.

use serde_json::{Value, json};

use super::format::Table;
use crate::proto::{Alarm, AlarmSeries, Alarms, InputField};

/// The newest alarm of each series that stands.
pub(super) fn standing(alarms: &Alarms) -> impl Iterator<Item = &Alarm> {
    let stands = alarms.series.iter().filter(|series| series.firing);
    stands.filter_map(|series| {
        let mut newest_first = alarms.history.iter().rev();
        newest_first.find(|alarm| alarm.alarm == series.alarm && alarm.class == series.class)
    })
}

/// Every series beside its limit, and what alarms have told; empty if alarms are off.
pub(super) fn alarms_in_words(alarms: Option<&Alarms>) -> String {
    let Some(alarms) = alarms else {
        return String::new();
    };
    let mut text = "\nAlarms:\n".to_owned();
    let mut table = Table::new(&["series", "statistic", "limit", "alarm", "a block is worth"]);
    let cells = |series: &AlarmSeries| {
        let name = match series.class.as_str() {
            "" => series.alarm.clone(),
            class => format!("{} of {class}", series.alarm),
        };
        let worth = series.effective_rows;
        vec![
            name,
            format!("{:.1}", series.statistic),
            format!("{:.1}", series.limit),
            if series.firing { "stands" } else { "none" }.to_owned(),
            worth.map_or_else(String::new, |rows| format!("{rows:.0} independent events")),
        ]
    };
    text += &table.lines(alarms.series.iter().map(cells).collect());
    for alarm in alarms.history.iter().rev() {
        text += &format!("- {}\n", alarm.explanation);
    }
    text
}

/// What broke, one sentence a field; the first lines that explain a refuted stream.
pub(super) fn broken_in_words(alarms: Option<&Alarms>) -> String {
    let broken = alarms.into_iter().flat_map(|alarms| &alarms.inputs);
    let broken = broken.filter(|field| field.broken);
    let line = |field: &InputField| {
        let since = field.since_block;
        let since = since.map_or_else(String::new, |block| format!(" since block {block}"));
        format!("A field of the input broke{since}: {}. ", field.explanation)
            + "See the runbook OstardFieldBroken: what the tests found may be this and no change of the classes.\n"
    };
    broken.map(line).collect()
}

/// All inputs beside training; empty if that is not known.
pub(super) fn inputs_in_words(alarms: Option<&Alarms>) -> String {
    let inputs = alarms.map_or(&[][..], |alarms| &alarms.inputs);
    if inputs.is_empty() {
        return "\nInputs beside training: not known, the bundle does not say what training had\n"
            .into();
    }
    let mut text = "\nInputs beside training:\n".to_owned();
    let mut table = Table::new(&[
        "field",
        "missing",
        "unknown",
        "beyond",
        "distance",
        "by chance",
        "broken",
    ]);
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let known = |share: Option<f64>| share.map_or_else(String::new, percent);
    let cells = |field: &InputField| {
        vec![
            field.name.clone(),
            percent(field.missing),
            known(field.unknown),
            known(field.beyond),
            format!("{:.3}", field.distance),
            format!("{:.3}", field.noise_floor),
            if field.broken { "yes" } else { "no" }.to_owned(),
        ]
    };
    text += &table.lines(inputs.iter().map(cells).collect());
    text
}

pub(super) fn alarms_in_json(alarms: &Alarms) -> Value {
    let series = |series: &AlarmSeries| {
        json!({
            "alarm": series.alarm,
            "class": series.class,
            "statistic": series.statistic,
            "limit": series.limit,
            "firing": series.firing,
            "effective_rows": series.effective_rows,
        })
    };
    let alarm = |alarm: &Alarm| {
        json!({
            "alarm": alarm.alarm,
            "class": alarm.class,
            "block": alarm.block,
            "since_block": alarm.since_block,
            "before": alarm.before,
            "after": alarm.after,
            "explanation": alarm.explanation,
        })
    };
    let input = |field: &InputField| {
        json!({
            "field": field.name,
            "missing": field.missing,
            "training_missing": field.training_missing,
            "unknown": field.unknown,
            "beyond": field.beyond,
            "distance": field.distance,
            "noise_floor": field.noise_floor,
            "broken": field.broken,
            "since_block": field.since_block,
            "explanation": field.explanation,
        })
    };
    json!({
        "blocks_per_week": alarms.blocks_per_week,
        "series": alarms.series.iter().map(series).collect::<Vec<_>>(),
        "history": alarms.history.iter().map(alarm).collect::<Vec<_>>(),
        "inputs": alarms.inputs.iter().map(input).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarms() -> Alarms {
        let series = |alarm: &str, class: &str, firing: bool| AlarmSeries {
            alarm: alarm.to_owned(),
            class: class.to_owned(),
            statistic: 3.3,
            limit: 11.5,
            firing,
            effective_rows: (alarm == "share").then_some(63.4),
        };
        let alarm = |class: &str, explanation: &str| Alarm {
            alarm: "share".to_owned(),
            class: class.to_owned(),
            explanation: explanation.to_owned(),
            ..Alarm::default()
        };
        Alarms {
            series: vec![series("share", "spam", true), series("shape", "", false)],
            history: vec![alarm("spam", "first"), alarm("spam", "second")],
            blocks_per_week: 2_016.0,
            inputs: vec![InputField {
                name: "price".to_owned(),
                missing: 0.5,
                beyond: Some(0.0),
                broken: true,
                since_block: Some(7),
                explanation: "`price` is missing in 50.0 % of events, in 0.0 % in training"
                    .to_owned(),
                ..InputField::default()
            }],
        }
    }

    #[test]
    fn a_broken_field_is_told_where_the_gates_reason_is() {
        let alarms = alarms();
        let told = broken_in_words(Some(&alarms));
        assert!(
            told.starts_with(
                "A field of the input broke since block 7: `price` is missing in 50.0 %"
            ),
            "{told}"
        );
        assert!(told.contains("OstardFieldBroken"), "{told}");
        assert_eq!(broken_in_words(None), "");
        let table = inputs_in_words(Some(&alarms));
        assert!(
            table.contains("price  50.0 %            0.0 %   0.000"),
            "{table}"
        );
        assert!(inputs_in_words(None).contains("not known"));
    }

    #[test]
    fn a_series_is_shown_beside_its_limit_and_an_alarm_in_words() {
        let alarms = alarms();
        let told: Vec<_> = standing(&alarms)
            .map(|alarm| &alarm.explanation[..])
            .collect();
        assert_eq!(told, ["second"]);
        let text = alarms_in_words(Some(&alarms));
        assert!(
            text.contains("share of spam  3.3        11.5   stands  63 independent events\n"),
            "{text}"
        );
        assert!(
            text.contains("shape          3.3        11.5   none\n"),
            "{text}"
        );
        assert!(text.ends_with("- second\n- first\n"), "{text}");
        assert_eq!(alarms_in_words(None), "");
        assert_eq!(alarms_in_json(&alarms)["series"][0]["firing"], true);
    }
}
