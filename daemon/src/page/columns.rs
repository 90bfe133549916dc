//! Which numbers of a frame are kept, to be drawn over time.

use super::frame::{CANDIDATES, Estimate, Frame};

/// One number of a frame. Classes are counted as the page shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Share(usize),
    ShareLow(usize),
    ShareHigh(usize),
    TrueShare(usize),
    Estimated(usize),
    Measured(usize),
    Before,
    After,
    Noise,
    Events,
    Lag,
}

impl Column {
    /// All of them, for so many classes.
    pub(super) fn all(classes: usize) -> Vec<Self> {
        let mut columns = Vec::new();
        for class in 0..classes {
            let share = [
                Self::Share,
                Self::ShareLow,
                Self::ShareHigh,
                Self::TrueShare,
            ];
            columns.extend(share.map(|column| column(class)));
        }
        for candidate in 0..CANDIDATES.len() {
            columns.extend([Self::Estimated(candidate), Self::Measured(candidate)]);
        }
        columns.extend([
            Self::Before,
            Self::After,
            Self::Noise,
            Self::Events,
            Self::Lag,
        ]);
        columns
    }

    /// What the page's script calls it.
    pub(super) fn name(self) -> String {
        match self {
            Self::Share(class) => format!("share.{class}"),
            Self::ShareLow(class) => format!("share_low.{class}"),
            Self::ShareHigh(class) => format!("share_high.{class}"),
            Self::TrueShare(class) => format!("true_share.{class}"),
            Self::Estimated(candidate) => format!("estimated.{}", CANDIDATES[candidate]),
            Self::Measured(candidate) => format!("measured.{}", CANDIDATES[candidate]),
            Self::Before => "before".into(),
            Self::After => "after".into(),
            Self::Noise => "noise".into(),
            Self::Events => "events".into(),
            Self::Lag => "lag".into(),
        }
    }

    /// Its value; not a number where it is not known.
    pub(super) fn of(self, frame: &Frame) -> f32 {
        let share = |class: usize| frame.classes[class].served;
        let value = match self {
            Self::Share(class) => share(class).map(|share| share.value),
            Self::ShareLow(class) => share(class).map(|share| share.low),
            Self::ShareHigh(class) => share(class).map(|share| share.high),
            Self::TrueShare(class) => frame.classes[class].true_share,
            Self::Estimated(candidate) => {
                let estimated: Option<Estimate> = frame.candidates[candidate].estimated;
                estimated.map(|estimated| estimated.value)
            }
            Self::Measured(candidate) => frame.candidates[candidate].accuracy,
            Self::Before => frame.shift.map(|shift| shift.before),
            Self::After => frame.shift.map(|shift| shift.after),
            Self::Noise => frame.shift.map(|shift| shift.noise),
            Self::Events => frame.stream.events_per_second,
            Self::Lag => frame.stream.lag_records,
        };
        value.map_or(f32::NAN, |value| value as f32)
    }
}
