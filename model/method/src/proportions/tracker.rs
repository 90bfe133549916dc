//! Averages blocks of a stream into the proportions that are published.

use std::borrow::Cow;

use ostar_engine::{Error, Result, checks};
use serde::{Deserialize, Serialize};

use super::{Evidence, LabelProportions, ProportionEstimate, average::Average};

/// Probability of a sudden change between two blocks, before the blocks are looked at.
const CHANGE: f64 = 0.01;

/// Share of the weights that is given back to their start after each block, so that an average that was
/// useless for long can come back when the stream changes its kind.
const FORGOTTEN: f64 = 0.002;

/// Weight of the average without forgetting at the start; the others share the rest. Many streams hardly
/// move, and there all long half-lives predict about as well: without it they would all be mixed.
const STEADY: f64 = 0.8;

/// What the long run's weights are multiplied by after each block.
const LONG_RUN: f64 = 0.99;

/// Blocks without a jump that are counted at the start, so that a first jump does not make jumps likely.
const JUMP_PRIOR: f64 = 20.0;

/// A smaller chance of a jump makes no difference.
const NO_JUMPS: f64 = 0.01;

/// How the estimates of blocks are averaged into the proportions that are served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TrackerSettings {
    /// Every row counts the same for ever: the paper's p <- p (k-1)/k + p_hat/k. Stops following.
    Cumulative,
    /// A row's weight halves every so many blocks.
    HalfLife {
        /// Blocks after which a row's weight has halved; above 0.
        blocks: f64,
    },
    /// Several half-lives and no forgetting side by side, weighted by how well each predicted the next block,
    /// and restarted where the stream jumps.
    Adaptive {
        /// Half-lives of the averages, in blocks; each above 0.
        half_lives: Vec<f64>,
    },
}

/// Follows the proportions of a stream, block by block.
///
/// What is averaged is each block's mean reading (see [`Estimator`](super::Estimator)): unbiased, not yet
/// forced onto the simplex, so that averaging takes its noise away and leaves no clipping bias behind. It also
/// stays comparable when the classifier or the confusion matrix changes between blocks, which the mean prediction q
/// does not; for an unchanged classifier both averages give the same proportions. `em` has no such reading: its
/// blocks' estimates are averaged as they are, which overstates rare classes when blocks are small.
///
/// Blocks must not overlap: their rows are counted as independent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tracker {
    experts: Vec<Expert>,
    /// How often the stream has jumped of late.
    jumps: JumpRate,
    /// Mean over the last hundred blocks or so, jumps included.
    long_run: Average,
    #[serde(skip)]
    mixed: Mixed,
}

/// The experts' averages, mixed by their weights, since the latest block. Three calls for a block ask for it.
#[derive(Debug, Clone, Default)]
struct Mixed(Option<Average>);

/// It follows from the experts, so that trackers are equal with or without it.
impl PartialEq for Mixed {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Jumps and blocks, each counted with a weight that fades.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct JumpRate {
    jumps: f64,
    blocks: f64,
}

/// One average and how much it is trusted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Expert {
    /// What a row's weight is multiplied by after each block.
    decay: f64,
    initial_weight: f64,
    log_weight: f64,
    average: Average,
}

// === impl TrackerSettings ===

impl Default for TrackerSettings {
    fn default() -> Self {
        Self::Adaptive {
            half_lives: (0..8).map(|power| f64::from(1 << power)).collect(),
        }
    }
}

impl TrackerSettings {
    /// Refuses half-lives that are not above 0.
    pub fn validate(&self) -> Result<()> {
        checks::first(self.problems())
    }

    /// All half-lives that cannot work.
    pub(crate) fn problems(&self) -> Vec<Error> {
        let half_life = |field: &str, blocks: f64| {
            if blocks.is_finite() && blocks > 0.0 {
                return Ok(());
            }
            let problem = format!("is {blocks}, expected a finite number of blocks above 0");
            Err(Error::setting(field, problem))
        };
        match self {
            Self::Cumulative => Vec::new(),
            Self::HalfLife { blocks } => {
                checks::problems([half_life("tracker.half_life.blocks", *blocks)])
            }
            Self::Adaptive { half_lives } => half_lives
                .iter()
                .filter_map(|blocks| half_life("tracker.adaptive.half_lives", *blocks).err())
                .collect(),
        }
    }

    /// Decay and initial weight of each average.
    fn experts(&self) -> Vec<(f64, f64)> {
        let decay = |blocks: &f64| 0.5f64.powf(1.0 / blocks);
        match self {
            Self::Cumulative => vec![(1.0, 1.0)],
            Self::HalfLife { blocks } => vec![(decay(blocks), 1.0)],
            Self::Adaptive { half_lives } => {
                let weight = (1.0 - STEADY) / half_lives.len().max(1) as f64;
                let forgetting = half_lives.iter().map(|blocks| (decay(blocks), weight));
                forgetting.chain([(1.0, STEADY)]).collect()
            }
        }
    }
}

// === impl Tracker ===

impl Tracker {
    /// A tracker that has seen nothing.
    pub fn new(settings: &TrackerSettings) -> Result<Self> {
        settings.validate()?;
        let expert = |(decay, initial_weight): (f64, f64)| Expert {
            decay,
            initial_weight,
            log_weight: initial_weight.ln(),
            average: Average::default(),
        };
        Ok(Self {
            experts: settings.experts().into_iter().map(expert).collect(),
            jumps: JumpRate::default(),
            long_run: Average::default(),
            mixed: Mixed::default(),
        })
    }

    /// Takes a block in and gives the proportions to publish.
    pub fn update(&mut self, evidence: &Evidence) -> Result<ProportionEstimate> {
        self.take_in(evidence)?;
        Ok(self.publish(evidence))
    }

    pub(crate) fn take_in(&mut self, evidence: &Evidence) -> Result<()> {
        let expected = self.experts[0].average.readings().mean.len();
        if expected > 0 {
            let classes = evidence.readings.mean.len();
            checks::length("classes of the evidence", classes, expected)?;
        }
        let changed = self.weigh(evidence);
        let weights = self.experts.iter().map(|expert| expert.log_weight.exp());
        let weights: Vec<f64> = weights.collect();
        let jumped = weights.iter().zip(&changed);
        self.jumps
            .add(jumped.map(|(weight, changed)| weight * changed).sum());
        self.long_run.decay(LONG_RUN);
        self.long_run.add(&evidence.readings, evidence.rows);
        for (expert, changed) in self.experts.iter_mut().zip(changed) {
            expert.average.decay(expert.decay * (1.0 - changed));
            expert.average.add(&evidence.readings, evidence.rows);
        }
        let averages = self.experts.iter().map(|expert| &expert.average);
        let mixed = Average::mixture(weights.into_iter().zip(averages));
        self.mixed = Mixed(Some(mixed));
        Ok(())
    }

    /// Proportions with their intervals, after the block that gave `evidence` was taken in.
    pub(crate) fn publish(&self, evidence: &Evidence) -> ProportionEstimate {
        let mixed = self.mixed();
        evidence.publish_average(mixed.readings(), mixed.effective_rows())
    }

    /// What to expect of the next block: the proportions now or, as often as the stream jumps, those of the long
    /// run. On a stream that comes sorted by class, what was just seen says little of what comes next.
    pub(crate) fn expected(&self, evidence: &Evidence) -> LabelProportions {
        let mixed = self.mixed();
        let now = evidence.proportions(mixed.readings(), mixed.effective_rows());
        let jump = self.jumps.rate();
        if jump < NO_JUMPS {
            return now;
        }
        let long_run = self.long_run.readings();
        let long_run = evidence.proportions(long_run, self.long_run.effective_rows());
        let pairs = now.as_ref().iter().zip(long_run.as_ref());
        let blend = pairs.map(|(now, long_run)| (1.0 - jump) * now + jump * long_run);
        LabelProportions::rescaled(blend.collect())
    }

    /// Multiplies each average's weight by how likely it made the block, and gives the probability that the
    /// stream jumped away from it: Bayes' rule, for "as predicted" against "anywhere".
    fn weigh(&mut self, evidence: &Evidence) -> Vec<f64> {
        let is_first = self.experts[0].average.readings().mean.is_empty();
        if is_first || self.experts.len() == 1 {
            return vec![0.0; self.experts.len()];
        }
        // "Anywhere" is as wide as one row's reading.
        let anywhere = CHANGE.ln() + self.mixed().log_likelihood(evidence, 1.0);
        let mut changed = Vec::with_capacity(self.experts.len());
        for expert in &mut self.experts {
            let rows = expert.average.effective_rows();
            let kept = (1.0 - CHANGE).ln() + expert.average.log_likelihood(evidence, rows);
            let either = log_sum([kept, anywhere]);
            changed.push((anywhere - either).exp());
            expert.log_weight += either;
        }
        let total = log_sum(self.experts.iter().map(|expert| expert.log_weight));
        for expert in &mut self.experts {
            let weight = (expert.log_weight - total).exp();
            expert.log_weight =
                ((1.0 - FORGOTTEN) * weight + FORGOTTEN * expert.initial_weight).ln();
        }
        changed
    }

    fn mixed(&self) -> Cow<'_, Average> {
        if let Some(mixed) = &self.mixed.0 {
            return Cow::Borrowed(mixed);
        }
        let weighted = self
            .experts
            .iter()
            .map(|expert| (expert.log_weight.exp(), &expert.average));
        Cow::Owned(Average::mixture(weighted))
    }
}

// === impl JumpRate ===

impl JumpRate {
    fn add(&mut self, jumped: f64) {
        self.jumps = LONG_RUN * self.jumps + jumped;
        self.blocks = LONG_RUN * self.blocks + 1.0;
    }

    /// Chance that the next block comes from elsewhere.
    fn rate(self) -> f64 {
        self.jumps / (self.blocks + JUMP_PRIOR)
    }
}

/// ln(sum of exp), without overflow.
fn log_sum(values: impl IntoIterator<Item = f64, IntoIter: Clone>) -> f64 {
    let values = values.into_iter();
    let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    largest
        + values
            .map(|value| (value - largest).exp())
            .sum::<f64>()
            .ln()
}
