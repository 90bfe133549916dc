//! From predictions on a block of target rows to label proportions with their intervals.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
};

use ostar_engine::{Result, checks};
use serde::{Deserialize, Serialize};

use super::{
    Confusion, EmLimits, Interval, LabelProportions, Probabilities, Temperature, em,
    interval::ProportionReading,
    unmixing::{EXACT_CLASSES, Readings, Unmixing},
};

/// Least share of a class in the reference of [`Estimator::TwoStep`]. Lower, the readings of a rare class hang
/// on so few held-out rows that their noise cannot be measured: at 0.01, with 100 held-out rows a class, intervals
/// of a share of 2 % covered 94 % of windows.
const REFERENCE_FLOOR: f64 = 0.02;

/// References are rounded to multiples of this. They only shape the readings and need not be exact, and while the
/// stream hardly moves its blocks share one unmixing, which is computed once.
const REFERENCE_STEP: f64 = 0.02;

/// Looser than the defaults: a reference need not be exact.
const REFERENCE_LIMITS: EmLimits = EmLimits {
    tolerance: 1e-4,
    iterations: 200,
};

/// How label proportions are estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// The paper's: shares whose mix of held-out mean predictions is nearest to the target's mean prediction.
    Confusion,
    /// Maximum likelihood, for probabilities that can be trusted. Has the least noise when temperature
    /// makes them so, and a bias that no interval shows when it does not.
    Em,
    /// `Confusion` drawn towards no change as far as the sample sizes ask for.
    Regularised,
    /// `Confusion` on predictions that are first corrected for roughly the right proportions, those of `Em`.
    /// So corrected they carry nearly all that the likelihood would use, and the held-out rows remove what
    /// miscalibration does, as far as they show any: what their noise explains is left to the classifier's own
    /// calibration. Most accurate over classifiers and sample sizes. Intervals do not rely on calibration.
    #[default]
    TwoStep,
}

/// Estimates the label proportions of a classifier's input from the classifier's probabilities alone.
#[derive(Debug, Clone)]
pub struct ProportionEstimator {
    estimator: Estimator,
    exact_classes: usize,
    prior: LabelProportions,
    temperature: Temperature,
    /// How far [`Estimator::TwoStep`] relies on the classifier's own calibration, 0 to 1.
    trust: f64,
    /// Calibrated, and corrected for `fixed`.
    held_out: Probabilities,
    labels: Vec<u32>,
    confusion: Confusion,
    /// Of `held_out`.
    unmixing: Arc<Unmixing>,
    /// What predictions are corrected for with more than [`EXACT_CLASSES`], whatever the stream's proportions are. An
    /// unmixing for every reference would take seconds a block at 1,000 classes. Little is lost: with so many classes
    /// most shares are below [`REFERENCE_FLOOR`], which makes all references alike.
    fixed: Option<ForReference>,
    latest: Latest,
}

/// What was made for the reference that was asked for last.
#[derive(Debug, Default)]
struct Latest(Mutex<Option<ForReference>>);

/// What predictions that are corrected for a reference are read with.
#[derive(Debug, Clone)]
struct ForReference {
    reference: LabelProportions,
    unmixing: Arc<Unmixing>,
    /// See [`Unmixing::adjustment`].
    adjustment: Arc<[f64]>,
}

/// What a block of target rows says about the proportions; blocks are averaged by a
/// [`Tracker`](super::Tracker).
#[derive(Debug, Clone)]
pub struct Evidence {
    estimator: Estimator,
    pub(crate) rows: f64,
    pub(crate) readings: Readings,
    unmixing: Arc<Unmixing>,
    converged: bool,
}

/// Label proportions as they are shown and served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProportionEstimate {
    /// Share of each class, on the simplex.
    pub proportions: LabelProportions,
    /// A 95 % interval for each: noise of the target rows behind it, and of the held-out rows. It holds for
    /// label shift alone, and for the mean of the true shares over those target rows.
    pub intervals: Vec<Interval>,
    /// How many independent target rows the shares are worth.
    pub effective_rows: f64,
    /// Whether the intervals can be relied on: nothing that can be seen without labels speaks against label shift
    /// alone. If not, every interval is the whole range.
    pub known: bool,
}

// === impl ProportionEstimator ===

impl ProportionEstimator {
    /// Takes predictions on labelled source rows that the classifier did not train on, and the class shares
    /// that it did train for (`prior`, the prior inside f), which may differ from those of the labels.
    ///
    /// With more than 64 classes the work that grows with their cube is done here, once, and the shares are found to
    /// within 0.001 in all.
    pub fn new(
        estimator: Estimator,
        held_out: Probabilities,
        labels: Vec<u32>,
        prior: LabelProportions,
    ) -> Result<Self> {
        Self::exact_up_to(EXACT_CLASSES, estimator, held_out, labels, prior)
    }

    /// [`ProportionEstimator::new`] with another bound than [`EXACT_CLASSES`].
    pub(crate) fn exact_up_to(
        exact_classes: usize,
        estimator: Estimator,
        mut held_out: Probabilities,
        labels: Vec<u32>,
        prior: LabelProportions,
    ) -> Result<Self> {
        let confusion = Confusion::new(&held_out, &labels)?;
        em::check_prior(&prior, held_out.classes())?;
        let (temperature, trust) = match estimator {
            Estimator::Confusion | Estimator::Regularised => (Temperature::ONE, 0.0),
            Estimator::Em => (Temperature::fit(&held_out, &labels, &prior)?, 1.0),
            Estimator::TwoStep => Temperature::fit_cautiously(&held_out, &labels, &prior)?,
        };
        temperature.apply_to(&mut held_out);
        let corrects = matches!(estimator, Estimator::Em | Estimator::TwoStep);
        let reference = (corrects && held_out.classes() > exact_classes)
            .then(|| prior.floored(REFERENCE_FLOOR));
        if let Some(reference) = &reference {
            held_out.correct(&prior, reference);
        }
        let unmixing = Arc::new(Unmixing::new(&held_out, &labels, exact_classes)?);
        let fixed = reference.map(|reference| ForReference {
            adjustment: unmixing.adjustment(&reference, trust).into(),
            unmixing: Arc::clone(&unmixing),
            reference,
        });
        Ok(Self {
            exact_classes,
            fixed,
            estimator,
            prior,
            temperature,
            trust,
            held_out,
            labels,
            confusion,
            unmixing,
            latest: Latest::default(),
        })
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.confusion.classes()
    }

    /// The classifier's temperature on the held-out rows; 1 for estimators that do not calibrate.
    pub fn temperature(&self) -> Temperature {
        self.temperature
    }

    /// The confusion matrix of the held-out predictions, not calibrated.
    pub fn confusion(&self) -> &Confusion {
        &self.confusion
    }

    /// The proportions of one window by itself.
    pub fn estimate(&self, target: &Probabilities) -> Result<ProportionEstimate> {
        Ok(self.evidence(target, None)?.publish())
    }

    /// What a block says. `reference` is roughly the proportions it is expected to have; without one, those of
    /// maximum likelihood. It affects the noise of the default estimator only, as long as label shift holds. It must
    /// not be what was published before: where label shift does not hold, that feeds an error back into itself.
    /// With more than 64 classes it is not looked at.
    pub fn evidence(
        &self,
        target: &Probabilities,
        reference: Option<&LabelProportions>,
    ) -> Result<Evidence> {
        checks::length(
            "classes of the target probabilities",
            target.classes(),
            self.classes(),
        )?;
        let mut target = target.clone();
        self.temperature.apply_to(&mut target);
        match self.estimator {
            Estimator::Confusion | Estimator::Regularised => {
                Ok(self.read(&target, Arc::clone(&self.unmixing), true))
            }
            Estimator::TwoStep => {
                let made = match (&self.fixed, reference) {
                    (Some(fixed), _) => fixed.clone(),
                    (None, Some(reference)) => {
                        checks::length("reference", reference.classes(), self.classes())?;
                        self.for_reference(&reference.rounded(REFERENCE_STEP))?
                    }
                    (None, None) => {
                        let limits = REFERENCE_LIMITS;
                        let found = em::maximum_likelihood(&target, &self.prior, limits)?;
                        self.for_reference(&found.proportions)?
                    }
                };
                Ok(self.read_corrected(target, made, true))
            }
            Estimator::Em => {
                let estimate = em::maximum_likelihood(&target, &self.prior, EmLimits::default())?;
                let made = match &self.fixed {
                    Some(fixed) => fixed.clone(),
                    None => self.for_reference(&estimate.proportions)?,
                };
                let mut evidence = self.read_corrected(target, made, estimate.converged);
                let readings = &mut evidence.readings;
                readings.mean = estimate.proportions.into();
                readings.adjustment.fill(0.0);
                Ok(evidence)
            }
        }
    }

    fn read_corrected(
        &self,
        mut target: Probabilities,
        made: ForReference,
        converged: bool,
    ) -> Evidence {
        target.correct(&self.prior, &made.reference);
        let mut evidence = self.read(&target, made.unmixing, converged);
        evidence.readings.adjustment = made.adjustment.to_vec();
        evidence
    }

    /// What was made for this reference, floored, the last time, or what is made now.
    fn for_reference(&self, reference: &LabelProportions) -> Result<ForReference> {
        let reference = reference.floored(REFERENCE_FLOOR);
        if let Some(made) = self.latest.get(&reference) {
            return Ok(made);
        }
        let (unmixing, _) = self.unmixed(&reference)?;
        let made = ForReference {
            adjustment: unmixing.adjustment(&reference, self.trust).into(),
            unmixing,
            reference,
        };
        self.latest.set(made.clone());
        Ok(made)
    }

    /// The held-out predictions as they are read for a target with `proportions`, and their unmixing.
    pub(crate) fn unmixed(
        &self,
        proportions: &LabelProportions,
    ) -> Result<(Arc<Unmixing>, Cow<'_, Probabilities>)> {
        match self.estimator {
            Estimator::Confusion | Estimator::Regularised => {
                Ok((Arc::clone(&self.unmixing), Cow::Borrowed(&self.held_out)))
            }
            Estimator::Em | Estimator::TwoStep if self.fixed.is_some() => {
                Ok((Arc::clone(&self.unmixing), Cow::Borrowed(&self.held_out)))
            }
            Estimator::Em | Estimator::TwoStep => {
                let reference = proportions.floored(REFERENCE_FLOOR);
                let held_out = self.held_out.corrected(&self.prior, &reference);
                let unmixing = Unmixing::new(&held_out, &self.labels, self.exact_classes)?;
                Ok((Arc::new(unmixing), Cow::Owned(held_out)))
            }
        }
    }

    pub(crate) fn labels(&self) -> &[u32] {
        &self.labels
    }

    fn read(&self, target: &Probabilities, unmixing: Arc<Unmixing>, converged: bool) -> Evidence {
        Evidence {
            estimator: self.estimator,
            rows: target.count() as f64,
            readings: unmixing.read(target),
            unmixing,
            converged,
        }
    }
}

// === impl Latest ===

impl Latest {
    fn get(&self, reference: &LabelProportions) -> Option<ForReference> {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.clone().filter(|made| made.reference == *reference)
    }

    fn set(&self, made: ForReference) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some(made);
    }
}

/// A clone starts empty; it computes the same unmixing when it needs one.
impl Clone for Latest {
    fn clone(&self) -> Self {
        Self::default()
    }
}

// === impl ProportionEstimate ===

impl ProportionEstimate {
    /// The same shares, marked as not known: every interval is the whole range.
    pub(crate) fn into_unknown(self) -> Self {
        Self {
            intervals: vec![Interval::WHOLE; self.intervals.len()],
            known: false,
            ..self
        }
    }
}

// === impl Evidence ===

impl Evidence {
    /// How many rows the block had.
    pub fn rows(&self) -> f64 {
        self.rows
    }

    /// False when `em` reached its most iterations before it converged.
    pub fn converged(&self) -> bool {
        self.converged
    }

    /// The proportions of this block by itself.
    pub fn publish(&self) -> ProportionEstimate {
        self.publish_average(&self.readings, self.rows)
    }

    /// The proportions of an average of blocks of which this is the latest.
    pub(crate) fn publish_average(
        &self,
        readings: &Readings,
        effective_rows: f64,
    ) -> ProportionEstimate {
        let proportions = self.proportions(readings, effective_rows);
        let interval = |class: usize| {
            let reading = ProportionReading {
                unmixing: &self.unmixing,
                class,
                mean: readings.mean[class],
                variance: readings.variance[class],
                rows: effective_rows,
                proportions: proportions.as_ref(),
            };
            Some(reading.interval()?.including(proportions[class]))
        };
        let classes = proportions.classes();
        let intervals: Option<Vec<Interval>> = (0..classes).map(interval).collect();
        ProportionEstimate {
            proportions,
            known: intervals.is_some(),
            intervals: intervals.unwrap_or_else(|| vec![Interval::WHOLE; classes]),
            effective_rows,
        }
    }

    /// The shares of an average of blocks of which this is the latest, without their intervals.
    pub(crate) fn proportions(&self, readings: &Readings, effective_rows: f64) -> LabelProportions {
        let mean = &readings.adjusted()[..];
        match self.estimator {
            Estimator::Confusion | Estimator::TwoStep => self.unmixing.on_simplex(mean),
            Estimator::Em => LabelProportions::rescaled(mean.to_vec()),
            Estimator::Regularised => {
                let held_out_rows: f64 = self.unmixing.counts().iter().sum();
                let rho = self
                    .unmixing
                    .confusion()
                    .penalty(held_out_rows, effective_rows);
                let prediction = self.unmixing.prediction(mean);
                self.unmixing.confusion().ridge(&prediction, rho)
            }
        }
    }
}
