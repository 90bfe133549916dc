//! `ostard inspect`.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use clap::Args;
use ostar_connectors::kafka::KafkaSettings;

use super::{
    format::{Format, FormatArgs, Table},
    layers::LayerArgs,
    print,
};
use crate::{
    config::Reading,
    inspect::{self, FieldLook, Inspection},
};

/// Look at the newest events of a topic: what each field of the bundle would get, beside training.
///
/// Says in words when a field is missing, looks renamed, has another unit or values that training did not have, and when
/// the bundle's own rows or labels in `labels.topic` fit another order of its classes. Reads only: it commits no offsets.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Inspect {
    /// Events to look at.
    #[arg(long, value_name = "EVENTS", default_value_t = 100)]
    events: usize,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    layers: LayerArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard inspect --brokers localhost:9092 --topic mails --bundle models/spam
  ostard inspect --topic orders --bundle models/fraud --set events.fields.price=/item/price
  ostard inspect --config ostard.toml --events 1000 --format json";

/// More would not fit into memory on small machines.
const MOST_EVENTS: usize = 100_000;

impl Inspect {
    pub(super) fn execute(self) -> Result<()> {
        if !(1..=MOST_EVENTS).contains(&self.events) {
            bail!("--events is {}, expected 1 to {MOST_EVENTS}", self.events);
        }
        let reading = Reading::new(&self.layers.layers());
        let (config, bundle) = reading.for_bundle(&[])?;
        let events = inspect::read(&config.kafka, self.events)?;
        let labels = config.labels.topic.as_ref().map(|topic| {
            let topic = KafkaSettings {
                topic: topic.clone(),
                ..config.kafka.clone()
            };
            inspect::read_some(&topic, self.events)
        });
        let (labels, problem) = match labels.transpose() {
            Ok(labels) => (labels, None),
            Err(error) => (
                None,
                Some(format!("labels.topic cannot be read: {error:#}")),
            ),
        };
        let mut inspection = inspect::look(&bundle, &config, &events, labels.as_deref())?;
        inspection.troubles.extend(problem);
        let text = match self.format.choose() {
            Format::Json => serde_json::to_string(&inspection)? + "\n",
            Format::Table => in_words(&inspection, &config.kafka.topic),
        };
        print(&text)
    }
}

fn in_words(found: &Inspection, topic: &str) -> String {
    let mut text = format!(
        "{} events of topic {topic}, {} could be used, {} have an id\n",
        found.events, found.used, found.with_id
    );
    for (reason, (count, detail)) in &found.rejected {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{count} rejected: {reason}: {detail}");
    }
    if !found.fields.is_empty() {
        text += "\n";
        let mut table = Table::new(&[
            "field",
            "takes",
            "from",
            "got",
            "missing",
            "in training",
            "values",
            "training had",
        ]);
        text += &table.lines(found.fields.iter().map(cells).collect());
    }
    if !found.training_known {
        text += "\nWhat training had is not known: the bundle has no inputs.json, which `ostard fit` writes.\n";
    }
    text += "\n";
    for look in found
        .class_order
        .iter()
        .filter(|look| look.trouble.is_none())
    {
        let _ = writeln!(text, "{} {}: {}", look.rows, look.of, look.says);
    }
    if found.troubles.is_empty() {
        text += "Nothing looks wrong.\n";
    }
    for trouble in &found.troubles {
        let _ = writeln!(text, "- {trouble}");
    }
    text
}

fn cells(field: &FieldLook) -> Vec<String> {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let range = |(low, high): (f64, f64)| format!("{} to {}", short(low), short(high));
    let values = match (field.range, field.distinct) {
        (Some(found), _) => range(found),
        (None, Some(0)) | (None, None) => String::new(),
        (None, Some(distinct)) => {
            format!("{distinct} different, like {}", field.examples.join(", "))
        }
    };
    let training = match (field.training_range, field.unlike_training) {
        (Some(training), _) => range(training),
        (None, Some(unlike)) if field.kind != "number" => {
            format!("all but {}", percent(unlike))
        }
        _ => String::new(),
    };
    vec![
        field.name.clone(),
        field.kind.to_owned(),
        field.path.clone(),
        field.types.iter().copied().collect::<Vec<_>>().join(", "),
        percent(field.missing),
        field.training_missing.map_or_else(String::new, percent),
        values,
        training,
    ]
}

/// A number with at most four digits that count.
fn short(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-3..1e7).contains(&size) {
        return format!("{number:.3e}");
    }
    let digits = (3 - size.max(1e-3).log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{number:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_size() {
        let written = [0.0, 9.99, 12345.678, 0.05, -3.0, 1e12, 2.5e-9].map(short);
        assert_eq!(
            written,
            ["0", "9.99", "12346", "0.05", "-3", "1.000e12", "2.500e-9"]
        );
    }
}
