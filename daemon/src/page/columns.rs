//! The numbers of a frame that the history keeps and the charts draw.

use ostar_method::Candidate;

use super::frame::Frame;

/// One number of a frame. Classes are indexed as in [`Frame::classes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Proportion(usize),
    ProportionLow(usize),
    ProportionHigh(usize),
    TrueProportion(usize),
    EstimatedAccuracy(Candidate),
    MeasuredAccuracy(Candidate),
    DistanceBeforeMap,
    DistanceAfterMap,
    NoiseFloor,
    EventsPerSecond,
    LagRecords,
}

impl Column {
    /// All columns for this number of classes.
    pub(super) fn all(classes: usize) -> Vec<Self> {
        let mut columns = Vec::new();
        for class in 0..classes {
            let proportions = [
                Self::Proportion,
                Self::ProportionLow,
                Self::ProportionHigh,
                Self::TrueProportion,
            ];
            columns.extend(proportions.map(|column| column(class)));
        }
        for candidate in Candidate::ALL {
            columns.extend([
                Self::EstimatedAccuracy(candidate),
                Self::MeasuredAccuracy(candidate),
            ]);
        }
        columns.extend([
            Self::DistanceBeforeMap,
            Self::DistanceAfterMap,
            Self::NoiseFloor,
            Self::EventsPerSecond,
            Self::LagRecords,
        ]);
        columns
    }

    /// The name in `page.js`.
    pub(super) fn name(self) -> String {
        match self {
            Self::Proportion(class) => format!("proportion.{class}"),
            Self::ProportionLow(class) => format!("proportion_low.{class}"),
            Self::ProportionHigh(class) => format!("proportion_high.{class}"),
            Self::TrueProportion(class) => format!("true_proportion.{class}"),
            Self::EstimatedAccuracy(candidate) => format!("estimated_accuracy.{candidate}"),
            Self::MeasuredAccuracy(candidate) => format!("measured_accuracy.{candidate}"),
            Self::DistanceBeforeMap => "distance_before_map".into(),
            Self::DistanceAfterMap => "distance_after_map".into(),
            Self::NoiseFloor => "noise_floor".into(),
            Self::EventsPerSecond => "events_per_second".into(),
            Self::LagRecords => "lag_records".into(),
        }
    }

    /// The value in a frame; NaN if it is not known.
    pub(super) fn of(self, frame: &Frame) -> f32 {
        let served = |class: usize| frame.classes[class].served;
        let value = match self {
            Self::Proportion(class) => served(class).map(|served| served.value),
            Self::ProportionLow(class) => served(class).map(|served| served.low),
            Self::ProportionHigh(class) => served(class).map(|served| served.high),
            Self::TrueProportion(class) => frame.classes[class].true_proportion,
            Self::EstimatedAccuracy(candidate) => {
                let estimated = frame.candidates[candidate as usize].estimated;
                estimated.map(|estimated| estimated.value)
            }
            Self::MeasuredAccuracy(candidate) => frame.candidates[candidate as usize].accuracy,
            Self::DistanceBeforeMap => frame.shift.map(|shift| shift.distance_before_map),
            Self::DistanceAfterMap => frame.shift.map(|shift| shift.distance_after_map),
            Self::NoiseFloor => frame.shift.map(|shift| shift.noise_floor),
            Self::EventsPerSecond => frame.stream.events_per_second,
            Self::LagRecords => frame.stream.lag_records,
        };
        value.map_or(f32::NAN, |value| value as f32)
    }
}
