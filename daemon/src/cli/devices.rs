//! `ostard devices`.

use anyhow::Result;
use clap::Args;
use ostar_engine::device::{Offer, offers};

use super::{
    format::{Format, FormatArgs, Table},
    print,
};

/// List the devices that learner.device can name: what the build has and what the machine has.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Devices {
    #[command(flatten)]
    format: FormatArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard devices
  ostard devices --format json
  ostard run --config ostard.toml --set learner.device=cuda:0";

impl Devices {
    pub(super) fn execute(self) -> Result<()> {
        let offers = offers();
        let text = match self.format.choose() {
            Format::Table => table(&offers),
            Format::Json => in_json(&offers)?,
        };
        print(&text)
    }
}

fn table(offers: &[Offer]) -> String {
    let row = |offer: &Offer| {
        let usable = if offer.usable { "yes" } else { "no" };
        vec![offer.device.clone(), usable.into(), offer.note.clone()]
    };
    Table::new(&["device", "usable", "what it is"]).lines(offers.iter().map(row).collect())
}

fn in_json(offers: &[Offer]) -> Result<String> {
    let lines = offers.iter().map(serde_json::to_string);
    let lines: Vec<_> = lines.collect::<Result<_, _>>()?;
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_is_listed_with_whether_it_can_be_used() {
        let offers = offers();
        let table = table(&offers);
        assert!(table.contains("\ncpu     yes"), "{table}");
        for offer in &offers {
            assert!(table.contains(&offer.note), "{table}");
        }
        let json = in_json(&offers).unwrap();
        let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!(first["device"], "cpu");
        assert_eq!(first["usable"], true);
    }
}
