//! The demo's classifier, trained on synthetic mail from before the drift.

use anyhow::{Context, Result};
use ostar_bundle::{
    Bundle,
    fields::{Field, FieldBlock, FieldKind, FieldSchema, FieldValue},
    fit::{FitSettings, Labelled, LabelledRows, fit},
};

use super::stream::{CLASSES, Mail, MailStream, Phase};

/// Number of labelled mails to train on.
const MAILS: usize = 12_000;
/// Number of mails from the same time that nobody labelled: with them it is proven that only the share of spam moved.
const REFERENCE_MAILS: usize = 5_000;
/// Rows of the embedding table.
const BUCKETS: usize = 4_096;

/// Trains the classifier. Takes a few seconds.
pub(super) fn train(seed: u64) -> Result<Bundle> {
    let mut stream = MailStream::new(seed);
    let mails: Vec<(Mail, u32)> = (0..MAILS).map(|_| stream.next(Phase::TRAINING)).collect();
    let labels: Vec<u32> = mails.iter().map(|(_, label)| *label).collect();
    let number = FieldKind::Number {
        mean: 0.0,
        deviation: 1.0,
    };
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind,
    };
    let mut schema = FieldSchema {
        fields: vec![
            field("subject", FieldKind::Text),
            field("sender", FieldKind::Category),
            field("links", number),
            field("kilobytes", number),
        ],
        buckets: BUCKETS,
    };
    let rows = mails
        .iter()
        .map(|(mail, _)| |_: usize, name: &str| value(mail, name));
    schema.measure(rows)?;
    let mut block = FieldBlock::default();
    for (mail, _) in &mails {
        schema.push(|_, name| value(mail, name), &mut block)?;
    }
    let settings = FitSettings {
        name: "demo".to_owned(),
        seed,
        latent: 16,
        encoder_hidden: vec![],
        embedding: 16,
        epochs: 12,
        ..FitSettings::default()
    };
    let classes = CLASSES.map(str::to_owned);
    let labelled = Labelled {
        classes: &classes,
        labels: &labels,
        rows: LabelledRows::Fields {
            schema: &schema,
            block: &block,
        },
    };
    let bundle =
        fit(labelled, &settings, &mut |_| ()).context("cannot train the demo's classifier")?;
    let mut unlabelled = FieldBlock::default();
    for _ in 0..REFERENCE_MAILS {
        let (mail, _) = stream.next(Phase::TRAINING);
        schema.push(|_, name| value(&mail, name), &mut unlabelled)?;
    }
    let bundle = bundle.with_reference(unlabelled.inputs());
    bundle.context("cannot take the demo's unlabelled mails")
}

fn value<'m>(mail: &'m Mail, name: &str) -> FieldValue<'m> {
    match name {
        "subject" => FieldValue::Text(&mail.subject),
        "sender" => FieldValue::Text(&mail.sender),
        "links" => FieldValue::Number(mail.links),
        "kilobytes" => FieldValue::Number(mail.kilobytes),
        _ => FieldValue::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demos_model_has_unlabelled_mails_of_the_training_period() {
        for seed in [0, 1] {
            let bundle = train(seed).unwrap();
            assert_eq!(bundle.reference_rows(), REFERENCE_MAILS);
        }
    }
}
