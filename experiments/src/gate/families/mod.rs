//! Families of streams that the gate's rule is judged on, in two halves: one to choose a rule on, one to look at once.
//!
//! A stream is a world (a model and rows that it has not seen) and a recipe (what happens along the stream). Both are drawn
//! from the half, the family and a number. The halves share no seed, no resampled row and no pair of domains; only defendants
//! are too few for that, there the halves have other draws of training rows.

mod columns;
mod compose;
mod gaussian;
mod material;
mod origin;
mod recipe;
mod sets;
mod twists;
mod world;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use ostar_bundle::Bundle;
use ostar_engine::Generator;

use self::{
    compose::compose,
    origin::{Kind, WorldKey, pairs},
    sets::{Set, Sets},
};
pub use self::{sets::Half, world::World};
use crate::task::Domain;

/// Streams of a family in a half.
pub const STREAMS: usize = 120;
/// Worlds of many classes, which take long to train.
const LARGE_WORLDS: usize = 16;
/// Of eight streams two are of a black box: one real, one made.
const BLACK_BOXES: [usize; 2] = [3, 6];

/// What happens along a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Family {
    /// Nothing.
    None,
    /// Shares move, the model is right on at least 75 % of the held-out rows.
    LabelShift,
    /// Shares move, the model is right on less.
    LabelShiftWeak,
    /// P(y given x) stays, inputs move: means, tilts by a score or a feature, segments.
    Covariate,
    /// Another inbox or product as it is, contacts of later years, classes that turn.
    Drift,
    /// Shares alternate every 100 to 4,000 events.
    Periodic,
    /// Two sources in turn, 300 to 700 events each.
    TwoSources,
    /// Classes and shares move at once.
    TwoShifts,
    /// 10 or 50 near copies of each event, with and without label shift.
    Sessions,
    /// A model that is right on 55 to 70 %, no shift or a small one.
    Weak,
    /// 60 to 300 held-out rows, no shift or label shift.
    FewHeldOut,
    /// The model's logits are 1.5 to 2 times too large.
    Overconfident,
    /// A class moves on the line to another.
    AlongTheLine,
    /// A filter upstream lets some scores through.
    Selection,
    /// 20 classes: label shift, nothing, a tilt by the score.
    #[value(name = "classes-20")]
    Classes20,
    /// 50 classes.
    #[value(name = "classes-50")]
    Classes50,
    /// 200 classes.
    #[value(name = "classes-200")]
    Classes200,
    /// Segments of a census.
    Census,
    /// Defendants in time order.
    Defendants,
    /// Streams on which something goes wrong.
    Failures,
}

/// A stream to replay, and the model that scores it.
pub struct Trial {
    /// What happens; a weak model's label shift is told by its held-out rows.
    pub family: Family,
    /// Set or `synthetic`.
    pub set: String,
    /// Number, world and recipe in words.
    pub setting: String,
    /// The model, as it is deployed.
    pub bundle: Bundle,
    /// What is replayed, as events carry it.
    pub stream: Domain,
    /// Unlabelled rows of the training period, as events carry them, on which the model was not trained.
    pub reference: Option<Domain>,
    /// How many classes there are.
    pub classes: usize,
    /// Whether events carry probabilities.
    pub is_black_box: bool,
    /// Accuracy on the held-out rows, in percent.
    pub held_out_accuracy: f64,
    /// How many rows the model is calibrated on.
    pub held_out_rows: usize,
}

/// Makes worlds and their streams.
pub struct Families {
    half: Half,
    sets: Sets,
    models: Option<PathBuf>,
}

impl Family {
    /// As on the command line and in results files.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn world(self, half: Half, number: usize) -> WorldKey {
        let is_real = number.is_multiple_of(2);
        let (kind, number) = match self {
            Self::LabelShiftWeak | Self::Weak => (Kind::Weak, number),
            Self::Covariate if number % 8 >= 6 => (Kind::Weak, number),
            Self::FewHeldOut => (Kind::FewHeldOut, number),
            Self::Classes20 => (Kind::Classes(20), number % LARGE_WORLDS),
            Self::Classes50 => (Kind::Classes(50), number % LARGE_WORLDS),
            Self::Classes200 => (Kind::Classes(200), number % (LARGE_WORLDS / 2)),
            Self::Census => (Kind::Census, number % 24),
            Self::Defendants => (Kind::Defendants, number),
            Self::Failures => (Kind::Failure, number),
            Self::Drift | Self::TwoSources | Self::TwoShifts if is_real => {
                // Objects are too few to draw from; they come last.
                let pairs = pairs(half);
                let fits =
                    |(set, _): &&(Set, [usize; 4])| self == Self::Drift || *set != Set::Office;
                let count = pairs.iter().filter(fits).count();
                let (lap, place) = (number / 2 / count, number / 2 % count);
                (Kind::Pair(place), lap)
            }
            Self::TwoShifts => (Kind::TwoShifts, number),
            _ => (Kind::Strong, number),
        };
        WorldKey { half, kind, number }
    }
}

impl Families {
    /// Files of real sets are looked for in `data`; trained models are kept in `models`.
    pub fn new(half: Half, data: &Path, models: Option<PathBuf>) -> Self {
        Self {
            half,
            sets: Sets::new(data),
            models,
        }
    }

    /// Streams, together with those of the same world.
    pub fn by_world(&self, streams: &[(Family, usize)]) -> Vec<Vec<(Family, usize)>> {
        let mut worlds: Vec<(WorldKey, Vec<(Family, usize)>)> = Vec::new();
        for (family, number) in streams {
            let key = family.world(self.half, *number);
            match worlds.iter_mut().find(|(known, _)| *known == key) {
                Some((_, streams)) => streams.push((*family, *number)),
                None => worlds.push((key, vec![(*family, *number)])),
            }
        }
        worlds.into_iter().map(|(_, streams)| streams).collect()
    }

    /// The world of stream `number` of a family; `None` if its set's file is not there.
    pub fn world(&self, family: Family, number: usize) -> Result<Option<World>> {
        let key = family.world(self.half, number);
        World::build(key, &self.sets, self.models.as_deref())
    }

    /// Stream `number` of a family, in its world, with so many reference rows at most.
    pub fn trial(
        &self,
        world: &World,
        family: Family,
        number: usize,
        reference: usize,
    ) -> Result<Trial> {
        let key = family.world(self.half, number);
        let mut generator =
            Generator::new(key.seed() ^ (family as u64 + 1) << 48 ^ (number as u64) << 32);
        let composed = compose(family, number, self.half, world, &mut generator)?;
        let stream = composed.recipe.draw(world, &mut generator)?;
        let is_black_box = world.is_black_box
            || BLACK_BOXES.contains(&(number % 8))
            || family == Family::Overconfident && number / 2 % 2 == 1;
        let scale = composed.logit_scale;
        let reference = (reference > 0 && !world.reference.numbers.is_empty())
            .then(|| world.reference.domain().first(reference));
        let (bundle, stream, reference) = if is_black_box && !world.is_black_box {
            let reference = reference.map(|rows| world.scored(&rows, scale));
            let stream = world.scored(&stream, scale)?;
            (world.black_box(scale)?, stream, reference.transpose()?)
        } else if scale != 1.0 {
            (world.overconfident(scale)?, stream, reference)
        } else {
            (world.model.clone(), stream, reference)
        };
        Ok(Trial {
            family: match family {
                Family::LabelShift if world.accuracy < 75.0 => Family::LabelShiftWeak,
                Family::LabelShiftWeak if world.accuracy >= 75.0 => Family::LabelShift,
                family => family,
            },
            set: world.set.clone(),
            setting: format!("{} {}", world.name, composed.what)
                .trim_end()
                .to_owned(),
            held_out_rows: bundle.held_out()?.labels.len(),
            bundle,
            stream,
            reference,
            classes: world.classes,
            is_black_box,
            held_out_accuracy: world.accuracy,
        })
    }

    /// Names of sets that were asked for and are not there.
    pub fn missing(&self) -> Vec<String> {
        self.sets.missing()
    }
}
