//! Writes predictions as JSON objects.

use serde::Serialize;

use crate::proto::Prediction;

#[derive(Serialize)]
struct Object<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    probabilities: &'a [f32],
    class: u32,
    class_name: &'a str,
    version: Version,
}

#[derive(Serialize)]
struct Version {
    epoch: u64,
    step: u64,
}

/// Appends the prediction to the buffer.
pub(super) fn write(prediction: &Prediction, buffer: &mut Vec<u8>) {
    let version = prediction.version.unwrap_or_default();
    let object = Object {
        id: &prediction.id,
        probabilities: &prediction.probabilities,
        class: prediction.class,
        class_name: &prediction.class_name,
        version: Version {
            epoch: version.epoch,
            step: version.step,
        },
    };
    serde_json::to_writer(buffer, &object).expect("writing text and numbers to memory cannot fail");
}
