//! Somebody who answers requests for labels, well or badly.

use std::collections::VecDeque;

use ostar_engine::Generator;
use ostar_method::learner::{ArrivedLabel, LabelRequest, LabelUse};

/// How many labels are asked for, and how they are answered.
#[derive(Debug, Clone, Copy, PartialEq, clap::Args)]
pub struct Answering {
    /// Labels to ask for after every block, where candidates disagree.
    #[arg(long, default_value_t = 0)]
    pub requests: usize,
    /// Blocks between a request and its answer.
    #[arg(long, default_value_t = 1)]
    pub late: usize,
    /// Which rows are asked for: another number draws others, from the same stream.
    #[arg(long, default_value_t = 0)]
    pub draw: u64,
    /// Share of answers that name another class.
    #[arg(long, default_value_t = 0.0)]
    pub flipped: f64,
    /// Answers only for events of this class.
    #[arg(long)]
    pub only_class: Option<u32>,
    /// Sends every answer twice, the second time with another class, and as many for events that never were.
    #[arg(long)]
    pub careless: bool,
}

impl Answering {
    /// Asks for nothing.
    pub const NONE: Self = Self {
        requests: 0,
        late: 1,
        draw: 0,
        flipped: 0.0,
        only_class: None,
        careless: false,
    };

    /// `None` if nothing is asked for.
    pub(super) fn labels(&self, seed: u64) -> Option<LabelUse> {
        (self.requests > 0).then(|| LabelUse {
            disagreements: self.requests,
            seed: seed + (self.draw << 32),
            ..LabelUse::default()
        })
    }
}

/// Answers that are under way.
pub(super) struct Answers {
    how: Answering,
    classes: usize,
    generator: Generator,
    /// With the block that each takes effect with.
    due: VecDeque<(usize, ArrivedLabel)>,
}

impl Answers {
    pub(super) fn new(how: Answering, classes: usize, seed: u64) -> Self {
        Self {
            how,
            classes,
            generator: Generator::new(seed ^ 0xa115),
            due: VecDeque::new(),
        }
    }

    /// Events' ids are their numbers in the stream.
    pub(super) fn ask(&mut self, block: usize, requests: &[LabelRequest], truth: &[u32]) {
        let due = block + self.how.late.max(1);
        for request in requests {
            let Ok(number) = request.id.parse::<usize>() else {
                continue;
            };
            let mut class = truth[number];
            if self.generator.uniform() < self.how.flipped {
                class = self.another(class);
            }
            if self.how.only_class.is_some_and(|only| only != class) {
                continue;
            }
            self.due.push_back((due, label(request.id.clone(), class)));
            if self.how.careless {
                let other = self.another(class);
                self.due.push_back((due, label(request.id.clone(), other)));
                let unknown = format!("unknown {number}").into();
                self.due.push_back((due, label(unknown, other)));
            }
        }
    }

    fn another(&mut self, class: u32) -> u32 {
        let step = 1 + self.generator.below(self.classes - 1) as u32;
        (class + step) % self.classes as u32
    }

    /// The answers that take effect with this block.
    pub(super) fn take(&mut self, block: usize) -> Vec<ArrivedLabel> {
        let ready = self.due.partition_point(|(due, _)| *due <= block);
        self.due.drain(..ready).map(|(_, label)| label).collect()
    }
}

fn label(id: Box<str>, class: u32) -> ArrivedLabel {
    ArrivedLabel {
        id,
        class,
        time_ms: 0,
    }
}
