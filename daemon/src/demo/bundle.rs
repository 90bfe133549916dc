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
    fit(labelled, &settings, &mut |_| ()).context("cannot train the demo's classifier")
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
