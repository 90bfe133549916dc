//! `alarms`: how many are false on simulated streams that do not change, and how soon a jump is told.

use anyhow::Result;
use clap::Args;
use ostar_engine::Generator;
use ostar_method::{
    alarms::{AlarmKind, AlarmSettings, Alarms, BlockStatistics},
    proportions::LabelProportions,
};
use serde::{Deserialize, Serialize};

use super::Common;
use crate::results::{Record, Results};

/// One block every five minutes.
const WEEK: u64 = 2_016;
/// Weeks of one stream, from its first block on.
const STREAM_WEEKS: u64 = 10;
/// Share of the second class, and its deviation in a block of 500 independent rows.
const SHARE: f64 = 0.3;
const DEVIATION: f64 = 0.0205;
/// Blocks before a jump, and after it: four windows of 5,000 rows.
const BEFORE: u64 = 400;
const AFTER: u64 = 40;

#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    common: Common,
    /// Weeks without a change, and as many jumps.
    #[arg(long, default_value_t = 200)]
    weeks: u64,
    /// False alarms that are set.
    #[arg(long, default_value_t = 1.0)]
    false_per_week: f64,
}

/// Line of the results file: one kind of stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AlarmsLine {
    /// How far a block follows the one before (AR(1)).
    pub(crate) follows: f64,
    pub(crate) set: f64,
    pub(crate) weeks: u64,
    /// False alarms a week: in all, about the share, about the shape.
    pub(crate) seen: f64,
    pub(crate) seen_share: f64,
    pub(crate) seen_shape: f64,
    /// Points that the share jumps by, and how many such jumps were tried.
    pub(crate) jump: f64,
    pub(crate) jumps: u64,
    /// Jumps that were told within two windows of 5,000 rows.
    pub(crate) told: u64,
    /// Blocks until they were told: half of them, nine in ten, and the slowest.
    pub(crate) half_blocks: u64,
    pub(crate) most_blocks: u64,
    pub(crate) slowest_blocks: u64,
}

impl Record for AlarmsLine {
    fn key(&self) -> String {
        format!("{}|{}|{}", self.follows, self.set, self.jump)
    }
}

/// Simulated statistics of blocks.
struct Stream {
    alarms: Alarms,
    random: Generator,
    follows: f64,
    noise: [f64; 2],
    block: u64,
}

impl Stream {
    fn new(false_per_week: f64, follows: f64, seed: u64) -> Result<Self> {
        let training = LabelProportions::new(vec![1.0 - SHARE, SHARE])?;
        Ok(Self {
            alarms: Alarms::new(AlarmSettings { false_per_week }, training),
            random: Generator::new(seed),
            follows,
            noise: [0.0; 2],
            block: 0,
        })
    }

    /// What the next block raises, whose share is higher by `jump`.
    fn next(&mut self, jump: f64) -> Vec<AlarmKind> {
        let innovation = (1.0 - self.follows * self.follows).sqrt();
        for noise in &mut self.noise {
            *noise = self.follows * *noise + innovation * self.random.normal();
        }
        self.block += 1;
        let share = SHARE + jump + DEVIATION * self.noise[0];
        let report = self.alarms.observe(BlockStatistics {
            block: self.block,
            shares: Some(&[1.0 - share, share]),
            intervals: None,
            shape: Some(0.6 * (0.15 * self.noise[1]).exp()),
        });
        report.raised.iter().map(|alarm| alarm.kind).collect()
    }
}

pub(super) fn run(options: &Options) -> Result<()> {
    let common = &options.common;
    let mut results = Results::open::<AlarmsLine>(&common.results("alarms"), common.resume)?;
    for follows in [0.0, 0.5, 0.8] {
        for jump in [0.1, 0.05] {
            let line = measure(follows, jump, options)?;
            if !results.has(&line.key()) {
                print(&line);
                results.append(&line)?;
            }
        }
    }
    Ok(())
}

fn measure(follows: f64, jump: f64, options: &Options) -> Result<AlarmsLine> {
    let (set, weeks) = (options.false_per_week, options.weeks);
    let mut seen = [0.0; 2];
    for seed in 0..weeks.div_ceil(STREAM_WEEKS) {
        let mut stream = Stream::new(set, follows, seed)?;
        for _ in 0..STREAM_WEEKS * WEEK {
            for kind in stream.next(0.0) {
                seen[usize::from(kind == AlarmKind::Shape)] += 1.0;
            }
        }
    }
    let run_weeks = weeks.div_ceil(STREAM_WEEKS) * STREAM_WEEKS;
    let mut delays = Vec::new();
    for seed in 0..weeks {
        let mut stream = Stream::new(set, follows, 10_000 + seed)?;
        for _ in 0..BEFORE {
            stream.next(0.0);
        }
        let told = (1..=AFTER).find(|_| stream.next(jump).contains(&AlarmKind::Share(1)));
        // One that is not told at all counts as told after the last block.
        delays.push(told.unwrap_or(AFTER + 1));
    }
    delays.sort_unstable();
    let quantile =
        |part: f64| delays[((part * delays.len() as f64) as usize).min(delays.len() - 1)];
    let rounded = |alarms: f64| (1e3 * alarms / run_weeks as f64).round() / 1e3;
    Ok(AlarmsLine {
        follows,
        set,
        weeks: run_weeks,
        seen: rounded(seen[0] + seen[1]),
        seen_share: rounded(seen[0]),
        seen_shape: rounded(seen[1]),
        jump,
        jumps: weeks,
        told: delays.iter().filter(|blocks| **blocks <= AFTER / 2).count() as u64,
        half_blocks: quantile(0.5),
        most_blocks: quantile(0.9),
        slowest_blocks: quantile(1.0),
    })
}

#[expect(
    clippy::print_stdout,
    reason = "a line for each kind of stream is the command's output"
)]
fn print(line: &AlarmsLine) {
    println!(
        "AR(1) {}: {} a week set, {} seen (share {}, shape {}); a jump of {} told in {} of {} within 20 blocks, half within {}, 90 % within {}, slowest {}",
        line.follows,
        line.set,
        line.seen,
        line.seen_share,
        line.seen_shape,
        line.jump,
        line.told,
        line.jumps,
        line.half_blocks,
        line.most_blocks,
        line.slowest_blocks,
    );
}
