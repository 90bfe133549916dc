//! The map of the latents as `map.js` reads it: flat lists of integers, which are short as JSON.

use ostar_method::learner::Picture;
use serde::{Serialize, Serializer};

/// Coordinates are sent in hundredths, which is finer than a pixel.
const SCALE: f32 = 100.0;

/// Coordinates and classes of the points.
#[derive(Serialize)]
pub(super) struct Points<'a> {
    source: Cloud<'a>,
    mapped: Cloud<'a>,
    labels: &'a [u32],
    target: Cloud<'a>,
    predicted: &'a [u32],
    scale: f32,
}

struct Cloud<'a>(&'a [[f32; 2]]);

pub(super) fn points(picture: &Picture) -> Points<'_> {
    Points {
        source: Cloud(&picture.source),
        mapped: Cloud(&picture.mapped),
        labels: &picture.labels,
        target: Cloud(&picture.target),
        predicted: &picture.predicted,
        scale: SCALE,
    }
}

/// x, y, x, y, ...
impl Serialize for Cloud<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = self.0.iter().flatten();
        serializer.collect_seq(numbers.map(|number| (number * SCALE).round() as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_whole_numbers_one_after_the_other() {
        let cloud = Cloud(&[[0.126, -1.0], [2.0, f32::NAN]]);
        assert_eq!(serde_json::to_string(&cloud).unwrap(), "[13,-100,200,0]");
    }
}
