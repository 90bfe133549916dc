//! Which recipe a stream of a family has.

use anyhow::Result;
use ostar_engine::Generator;

use super::{
    Family,
    recipe::{Phase, Recipe, Twist},
    sets::Half,
    world::World,
};

/// Rows of a stream: 20 blocks.
const ROWS: usize = 10_000;
/// Rows after which shares alternate.
const PERIODS: [usize; 7] = [100, 200, 250, 500, 500, 1_000, 2_000];

/// A recipe in words.
pub(super) struct Composed {
    pub(super) recipe: Recipe,
    pub(super) what: String,
    /// What the model's logits are multiplied by once it is calibrated.
    pub(super) logit_scale: f64,
}

/// Draws the recipe of stream `number`.
pub(super) fn compose(
    family: Family,
    number: usize,
    half: Half,
    world: &World,
    generator: &mut Generator,
) -> Result<Composed> {
    let mut recipe = Recipe::quiet(ROWS);
    if generator.uniform() < 0.7 {
        recipe.quiet = 500 * (2 + generator.below(7));
    }
    let mut cook = Cook {
        recipe,
        world,
        what: Vec::new(),
        generator,
    };
    let mut logit_scale = 1.0;
    match family {
        Family::None => {}
        Family::LabelShift | Family::LabelShiftWeak => cook.label_shift(0.1, 0.5),
        Family::Covariate => cook.covariate(number)?,
        Family::Drift | Family::TwoShifts | Family::TwoSources if number.is_multiple_of(2) => {
            cook.another_part(family);
        }
        Family::Drift => {
            let angle = 0.4 + 1.2 * cook.generator.uniform();
            cook.recipe.twist = Twist::Turning(angle);
            cook.what.push(format!("turning to {angle:.2}"));
        }
        Family::TwoSources => cook.two_sources(0.05),
        Family::TwoShifts | Family::Failures => cook.whole(),
        Family::Periodic => cook.periodic(),
        Family::Sessions => {
            cook.recipe.copies = [10, 50][number / 2 % 2];
            cook.what.push(format!("{} copies", cook.recipe.copies));
            if number / 4 % 2 == 1 {
                cook.label_shift(0.1, 0.4);
            }
        }
        Family::Weak if (number / 2).is_multiple_of(2) => {}
        Family::Weak => cook.label_shift(0.02, 0.1),
        Family::FewHeldOut if number.is_multiple_of(3) => {}
        Family::FewHeldOut => cook.label_shift(0.1, 0.4),
        Family::Overconfident => {
            logit_scale = 1.5 + 0.5 * cook.generator.uniform();
            cook.what.push(format!("logits x{logit_scale:.2}"));
            if number / 4 % 2 == 1 {
                cook.label_shift(0.1, 0.4);
            }
        }
        Family::AlongTheLine => cook.line(),
        Family::Selection => cook.selection()?,
        Family::Classes20 | Family::Classes50 | Family::Classes200 => {
            match (number + number / 8) % 5 {
                0 => {}
                1 => cook.tilt_by_score()?,
                _ => cook.label_shift(0.1, 0.4),
            }
        }
        Family::Census => cook.segment_of_later_rows(number, half),
        Family::Defendants => cook.defendants(number),
    }
    let from = cook.recipe.quiet;
    if !cook.what.is_empty() && from > 0 {
        cook.what.push(format!("from {from}"));
    }
    Ok(Composed {
        what: cook.what.join(" "),
        recipe: cook.recipe,
        logit_scale,
    })
}

/// Draws a recipe's parameters.
pub(super) struct Cook<'a> {
    pub(super) recipe: Recipe,
    pub(super) world: &'a World,
    pub(super) what: Vec<String>,
    pub(super) generator: &'a mut Generator,
}

impl Cook<'_> {
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.generator.uniform()
    }

    /// Shares that differ from those of training by `least` to `most` in total variation.
    fn moved_shares(&mut self, least: f64, most: f64) -> Vec<f64> {
        let training = &self.world.shares;
        let mut nearest = (f64::INFINITY, training.clone());
        for _ in 0..200 {
            let spread = 0.2 + 1.8 * self.generator.uniform();
            let weights: Vec<f64> = training
                .iter()
                .map(|share| share * (spread * self.generator.normal()).exp())
                .collect();
            let sum: f64 = weights.iter().sum();
            let shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
            let variation = |other: &[f64]| {
                let both = training.iter().zip(other);
                0.5 * both.map(|(from, to)| (from - to).abs()).sum::<f64>()
            };
            let distance = variation(&shares);
            if (least..most).contains(&distance) {
                return shares;
            }
            let miss = (distance - least).abs().min((distance - most).abs());
            if miss < nearest.0 {
                nearest = (miss, shares);
            }
        }
        nearest.1
    }

    fn phase(&mut self, least: f64, most: f64, pool: usize) -> Phase {
        Phase {
            shares: self.moved_shares(least, most),
            pool,
        }
    }

    /// To the largest change of a share.
    fn say_shares(&mut self, word: &str) {
        let Some(phase) = self.recipe.phases.first() else {
            return;
        };
        let both = self.world.shares.iter().zip(&phase.shares);
        let largest = both.max_by(|a, b| (a.0 - a.1).abs().total_cmp(&(b.0 - b.1).abs()));
        if let Some((from, to)) = largest {
            self.what.push(format!("{word} {from:.2} to {to:.2}"));
        }
    }

    fn label_shift(&mut self, least: f64, most: f64) {
        let jumps = [1, 1, 1, 2][self.generator.below(4)];
        self.recipe.phases = (0..jumps).map(|_| self.phase(least, most, 0)).collect();
        if jumps > 1 {
            self.recipe.every = 3_000;
        } else {
            self.recipe.gradual = self.generator.uniform() < 0.2;
        }
        let word = match (jumps, self.recipe.gradual) {
            (1, false) => "jump",
            (1, true) => "gradual",
            _ => "jumps",
        };
        self.say_shares(word);
    }

    fn periodic(&mut self) {
        let first = self.phase(0.15, 0.6, 0);
        // Of some others the one that is farthest from it.
        let mut farthest = (0.0, first.clone());
        for _ in 0..5 {
            let other = self.phase(0.1, 0.6, 0);
            let both = first.shares.iter().zip(&other.shares);
            let distance: f64 = both.map(|(left, right)| (left - right).abs()).sum();
            if distance > farthest.0 {
                farthest = (distance, other);
            }
        }
        self.recipe.phases = vec![first, farthest.1];
        // As often as not in step with groups and blocks.
        self.recipe.every = if self.generator.uniform() < 0.5 {
            PERIODS[self.generator.below(PERIODS.len())]
        } else {
            self.between(100f64.ln(), 4_000f64.ln()).exp() as usize
        };
        let every = self.recipe.every;
        self.say_shares(&format!("every {every}"));
    }

    fn two_sources(&mut self, least: f64) {
        let own = Phase {
            shares: self.world.shares.clone(),
            pool: 0,
        };
        // Of a real set the training's own source may give the stream nothing but rows it has left.
        let pool = self.world.pools.len() - 1;
        let other = self.phase(least, 0.5, pool);
        self.recipe.phases = vec![other, own];
        self.recipe.every = 300 + self.generator.below(401);
        let every = self.recipe.every;
        self.say_shares(&format!("every {every}"));
    }

    /// Another inbox, product or time: as it is, at other shares, or in turn with the training's.
    fn another_part(&mut self, family: Family) {
        self.recipe.quiet = self.recipe.quiet.min(1_000);
        let pool = &self.world.pools[1];
        match family {
            Family::TwoSources => {
                self.recipe.quiet = 0;
                self.two_sources(0.05);
            }
            Family::TwoShifts => {
                let phase = self.phase(0.15, 0.5, 1);
                self.recipe.phases = vec![phase];
                self.say_shares("at other shares");
            }
            _ => {
                self.recipe.quiet = 0;
                self.recipe.in_order = true;
                self.recipe.rows = pool.numbers.len().min(2 * ROWS);
                self.use_pool(1);
                self.what.push("as it is".to_owned());
            }
        }
    }

    fn use_pool(&mut self, pool: usize) {
        self.recipe.phases = vec![Phase {
            shares: self.world.shares.clone(),
            pool,
        }];
    }

    /// A stream that was made elsewhere.
    fn whole(&mut self) {
        self.recipe.quiet = 0;
        self.recipe.in_order = true;
        self.recipe.rows = self.world.pools[0].numbers.len();
    }

    fn segment_of_later_rows(&mut self, number: usize, half: Half) {
        let segments = self.segments(1);
        let own: Vec<(usize, u8)> = (0..segments.len())
            .filter(|place| half.has(*place))
            .map(|place| segments[place])
            .collect();
        self.recipe.in_order = true;
        self.use_pool(1);
        self.segment(1, own[number % own.len()], 0.0);
    }

    fn defendants(&mut self, number: usize) {
        self.recipe.quiet = self.recipe.quiet.min(500);
        self.recipe.in_order = true;
        self.use_pool(1);
        if number % 3 == 2 {
            let segments = self.segments(1);
            let chosen = segments[self.generator.below(segments.len())];
            self.segment(1, chosen, 0.2);
        } else {
            self.what.push("in time order".to_owned());
        }
    }
}
