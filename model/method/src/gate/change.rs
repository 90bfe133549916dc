//! What prior correction makes of a row, and at which strength.

/// Correction to the estimated shares.
pub(crate) const WHOLE: f64 = 1.0;
/// Lower bound on a probability.
const LEAST_PROBABILITY: f64 = f32::EPSILON as f64;

/// What the whole correction makes of a row whose class it changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Change {
    /// The class after it.
    pub(crate) class: u32,
    /// The strength from which on it changes the class, from 0 to 1.
    pub(crate) reach: f32,
    /// What it adds to the log-odds of this class against the frozen model's.
    pub(crate) shift: f32,
}

impl Change {
    /// Of probabilities before and after the whole correction, and the classes that these predict.
    pub(crate) fn new(frozen: &[f32], whole: &[f32], classes: [u32; 2]) -> Option<Self> {
        let [before, after] = classes.map(|class| class as usize);
        if before == after {
            return None;
        }
        let ln = |probability: f32| f64::from(probability).max(LEAST_PROBABILITY).ln();
        let margin = (ln(frozen[before]) - ln(frozen[after])).max(0.0);
        let shift = margin + (ln(whole[after]) - ln(whole[before])).max(0.0);
        let reach = if shift > 0.0 { margin / shift } else { 0.0 };
        Some(Self {
            class: classes[1],
            reach: reach as f32,
            shift: shift as f32,
        })
    }

    /// Whether correction at this strength changes the class.
    pub(super) fn is_made_at(reach: f32, strength: f64) -> bool {
        strength >= WHOLE || f64::from(reach) < strength
    }
}
