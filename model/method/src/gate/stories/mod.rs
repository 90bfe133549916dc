//! Two stories of how a stream may have moved, and what its rows say of them. Where the class causes the features, shares move;
//! where the features cause the class, inputs move. No number of unlabelled rows separates the two in general; label shift is
//! told from covariate shifts of a simple kind (docs/decisions/0009).

mod calibration;
mod components;
mod judge;
mod points;
mod window;

pub use self::judge::Stories;
pub(crate) use self::window::StoryWindow;
use self::{
    judge::{Training, em, judge},
    points::{Points, Preparation, Prepared, Space},
    window::Segment,
};
use crate::{
    deployed::{HeldOut, ReferenceRows},
    proportions::{LabelProportions, Probabilities},
};

/// With more classes nothing is proven without labels: bins of the scores are empty, and a tilt has as many slopes as classes.
const MOST_CLASSES: usize = 12;

/// New rows that are worth judging a window of more than two classes again.
const NEW_ROWS: u32 = 1_500;
/// Strengths of a step that is not proven, the largest first.
const STRENGTHS: [f64; 8] = [1.0, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2, 0.1];
/// What such a step may cost if inputs moved, in shares of the rows, and how many rows it may change.
const MOST_COST: f64 = 0.0025;
const MOST_CHANGED: f64 = 0.01;
/// Groups of rows whose own shares judge what correction gained: few, so that shares that alternate within a block show.
const GROUPS_JUDGED: usize = 2;

/// From training's shares to those that predictions are corrected to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Correction<'a> {
    pub(crate) training: &'a LabelProportions,
    pub(crate) target: &'a LabelProportions,
}

impl Correction<'_> {
    /// What it adds to the logarithm of each class.
    fn shifts(&self, strength: f64) -> impl Iterator<Item = f64> {
        let shares = self.target.as_ref().iter().zip(self.training.as_ref());
        shares
            .map(move |(target, training)| strength * (target.max(1e-9) / training.max(1e-9)).ln())
    }
}

/// The place of the largest; the first of equals.
fn argmax(values: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (place, value) in values.enumerate() {
        if value > best.1 {
            best = (place, value);
        }
    }
    best.0
}

/// What stories are judged by: training's rows, prepared once.
#[derive(Debug)]
pub(crate) struct StoryTests {
    classes: usize,
    /// `None` where scores do not vary, or with too many classes.
    basis: Option<Basis>,
}

#[derive(Debug)]
struct Basis {
    preparation: Preparation,
    space: Space,
    held_out: Points,
    /// Held-out and reference rows together; `None` without the latter.
    reference: Option<Points>,
    /// Mean calibrated probabilities of training's rows.
    shares: Vec<f64>,
}

impl Basis {
    fn new(held_out: &HeldOut, reference: Option<&ReferenceRows>) -> Option<Self> {
        let classes = held_out.probabilities.classes();
        let preparation = Preparation::new(held_out);
        let labelled = preparation.prepare(&held_out.latents, &held_out.probabilities);
        let all = reference.map(|rows| {
            let more = preparation.prepare(&rows.latents, &rows.probabilities);
            Prepared {
                calibrated: [&labelled.calibrated[..], &more.calibrated].concat(),
                components: [&labelled.components[..], &more.components].concat(),
            }
        });
        let space = Space::new(&all.as_ref().unwrap_or(&labelled).calibrated, classes)?;
        let points = |prepared: &Prepared, labels| {
            space.points(&prepared.calibrated, classes, &prepared.components, labels)
        };
        let mut basis = Self {
            held_out: points(&labelled, Some(&held_out.labels)),
            reference: all.map(|all| points(&all, None)),
            shares: Vec::new(),
            space,
            preparation,
        };
        basis.shares = basis.training().shares(classes);
        Some(basis)
    }

    fn training(&self) -> Training<'_> {
        Training {
            held_out: &self.held_out,
            reference: self.reference.as_ref(),
            components: self.preparation.components(),
        }
    }

    fn has_bins(&self) -> bool {
        self.space.bins() > 0
    }
}

impl StoryTests {
    pub(crate) fn new(held_out: &HeldOut, reference: Option<&ReferenceRows>) -> Self {
        let classes = held_out.probabilities.classes();
        let can_judge = classes <= MOST_CLASSES;
        Self {
            classes,
            basis: can_judge.then(|| Basis::new(held_out, reference)).flatten(),
        }
    }

    /// Whether there are reference rows beside the held-out rows.
    pub(crate) fn has_reference(&self) -> bool {
        self.basis
            .as_ref()
            .is_some_and(|basis| basis.reference.is_some())
    }

    /// Whether the fit of latents can be tested.
    pub(crate) fn sees_latents(&self) -> bool {
        self.basis
            .as_ref()
            .is_some_and(|basis| basis.preparation.components() > 0)
    }

    /// Takes a block into the window. `coarse` are its rows by bin of the change test.
    pub(crate) fn take_in(
        &self,
        window: &mut StoryWindow,
        latents: &[f32],
        probabilities: &Probabilities,
        coarse: &[u32],
    ) {
        let Some(basis) = &self.basis else {
            window.add(Segment::counted(probabilities.count(), coarse), false);
            return;
        };
        let prepared = basis.preparation.prepare(latents, probabilities);
        let block = Segment::new(&basis.space, self.classes, &prepared, coarse);
        window.add(block, basis.has_bins());
    }

    /// Whether the window has changed so much since it was judged that this is worth its cost: that of many classes grows with
    /// every row.
    pub(crate) fn is_due(&self, window: &StoryWindow) -> bool {
        let has_bins = self.basis.as_ref().is_some_and(Basis::has_bins);
        has_bins || window.is_new_by(NEW_ROWS)
    }

    /// Judges the window; `None` where nothing can be judged. Shares are looked for from `start` on, and are what
    /// correction would go to.
    pub(crate) fn judge(
        &self,
        window: &mut StoryWindow,
        start: &LabelProportions,
        correction: &Correction<'_>,
    ) -> Option<(Stories, f64)> {
        let basis = self.basis.as_ref()?;
        window.note_judged();
        let points = window.points(&basis.space, self.classes, basis.preparation.components());
        let training = basis.training();
        let independent = window.independent();
        let stories = judge(&points, &training, &basis.shares, Some(start), independent);
        let strength = self.bounded_strength(basis, &points, correction);
        Some((stories, strength))
    }

    /// The largest strength of correction that would hardly cost anything if the scores held; 0 if none.
    fn bounded_strength(&self, basis: &Basis, window: &Points, correction: &Correction<'_>) -> f64 {
        let calibration = &basis.preparation.calibration;
        let rows = window.probabilities.chunks_exact(self.classes);
        let logits: Vec<f64> = rows.flat_map(|row| calibration.logits(row)).collect();
        let frozen: Vec<usize> = (logits.chunks_exact(self.classes))
            .map(|row| argmax(row.iter().copied()))
            .collect();
        let bounded = STRENGTHS.into_iter().find(|strength| {
            let shifts: Vec<f64> = correction.shifts(*strength).collect();
            let (mut cost, mut changed) = (0.0, 0.0);
            for (point, row) in logits.chunks_exact(self.classes).enumerate() {
                let corrected = argmax(row.iter().zip(&shifts).map(|(logit, shift)| logit + shift));
                if corrected != frozen[point] {
                    let own = &window.probabilities[point * self.classes..];
                    cost += window.weights[point] * (own[frozen[point]] - own[corrected]);
                    changed += window.weights[point];
                }
            }
            cost <= MOST_COST * window.rows() && changed <= MOST_CHANGED * window.rows()
        });
        bounded.unwrap_or(0.0)
    }

    /// What corrections gained on a block, in points of accuracy, judged by the shares of its own rows. Each of `chosen` is for so
    /// many rows, in their order; `None` where nothing was to be corrected.
    pub(crate) fn gain(
        &self,
        probabilities: &Probabilities,
        training: &LabelProportions,
        chosen: &[(usize, Option<LabelProportions>)],
    ) -> f64 {
        let Some(basis) = self
            .basis
            .as_ref()
            .filter(|_| chosen.iter().any(|(_, to)| to.is_some()))
        else {
            return 0.0;
        };
        let calibrated = basis.preparation.prepare(&[], probabilities).calibrated;
        let (mut gain, mut first) = (0.0, 0);
        for groups in chosen.chunks(GROUPS_JUDGED) {
            let rows: usize = groups.iter().map(|(rows, _)| rows).sum();
            let own = &calibrated[first * self.classes..(first + rows) * self.classes];
            let points = Points {
                weights: vec![1.0; rows],
                probabilities: own.to_vec(),
                ..Points::default()
            };
            let shares = em(&points, &basis.shares, None);
            let ratios: Vec<f64> = shares
                .iter()
                .zip(&basis.shares)
                .map(|(a, b)| a / b)
                .collect();
            for (count, chosen) in groups {
                if let Some(target) = chosen {
                    let correction = Correction { training, target };
                    for row in first..first + count {
                        let own = &calibrated[row * self.classes..][..self.classes];
                        gain += gain_on_row(probabilities.row(row), own, &ratios, &correction);
                    }
                }
                first += count;
            }
        }
        100.0 * gain / probabilities.count() as f64
    }
}

/// How much likelier the corrected class of a row is than the frozen model's, at shares that differ from training's by `ratios`.
fn gain_on_row(
    raw: &[f64],
    calibrated: &[f64],
    ratios: &[f64],
    correction: &Correction<'_>,
) -> f64 {
    let raw = raw.iter().map(|p| p.max(f64::MIN_POSITIVE).ln());
    let frozen = argmax(raw.clone());
    let corrected = argmax(raw.zip(correction.shifts(1.0)).map(|(a, b)| a + b));
    if frozen == corrected {
        return 0.0;
    }
    let weigh = |class: usize| calibrated[class] * ratios[class];
    let total: f64 = (0..ratios.len()).map(weigh).sum();
    (weigh(corrected) - weigh(frozen)) / total
}

impl StoryWindow {
    /// Rows since the stream last changed.
    pub(crate) fn since_jump(&self) -> u64 {
        self.rows_since_jump()
    }
}

#[cfg(test)]
mod tests;
