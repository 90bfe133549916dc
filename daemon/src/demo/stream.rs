//! A synthetic stream of mail in three acts: nothing moves, the share of spam trebles, mails change.
//!
//! In the third act mail programs add a footer of links to every mail, and some of the words that ham and spam have in
//! common come from a vocabulary that training never saw. The model takes links for spam: it finds too much of it, and
//! correction to that share makes matters worse. Both classes still are what they were, elsewhere.

use ostar_engine::Generator;
use serde::Serialize;

/// The classes, in the order of their labels.
pub(super) const CLASSES: [&str; 2] = ["ham", "spam"];
/// Share of spam in training.
pub(super) const TRAINING_SPAM: f64 = 0.2;

const WORDS: usize = 14;
const COMMON: usize = 300;
const TELLING: usize = 60;
/// Share of words that tell ham from spam.
const TELLS: f64 = 0.38;
/// Share of offers among the telling words of ham and of spam.
const OFFERS: [f64; 2] = [0.22, 0.78];
/// Mean number of links of ham and of spam.
const LINKS: [f64; 2] = [1.0, 4.0];
/// Links of a footer.
const FOOTER: f64 = 4.0;
/// Share of unseen words among those in common, after the drift.
const UNSEEN: f64 = 0.05;
const SENDERS: usize = 12;

/// One mail, as the events carry it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Mail {
    pub(super) subject: String,
    pub(super) sender: String,
    pub(super) links: f64,
    pub(super) kilobytes: f64,
}

/// A part of the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Act {
    pub(super) name: &'static str,
    /// With its number.
    pub(super) title: &'static str,
    /// The fraction of the stream at which it begins.
    pub(super) begin: f64,
}

/// The number of the act that a mail belongs to, from 0.
pub(super) fn act_of(mail: u64, mails: u64) -> usize {
    let begun = |act: &Act| act.begin * mails as f64 <= mail as f64;
    ACTS.iter().rposition(begun).unwrap_or(0)
}

/// The acts, in order.
pub(super) const ACTS: [Act; 3] = [
    Act {
        name: "nothing moves",
        title: "act 1: nothing moves",
        begin: 0.0,
    },
    Act {
        name: "the share of spam trebles",
        title: "act 2: the share of spam trebles",
        begin: 0.25,
    },
    Act {
        name: "mails change, too",
        title: "act 3: mails change, too",
        begin: 0.6,
    },
];
/// The fraction of the stream in which an act's change comes about.
const CHANGE: f64 = 0.02;

/// A point on the stream's schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Phase {
    /// Share of spam.
    pub(super) spam: f64,
    /// How far mails have changed, 0 to 1.
    pub(super) drift: f64,
}

/// Draws mails and labels.
pub(super) struct MailStream {
    generator: Generator,
}

// === impl Phase ===

impl Phase {
    /// The phase of the training data.
    pub(super) const TRAINING: Self = Self {
        spam: TRAINING_SPAM,
        drift: 0.0,
    };

    /// At a fraction `progress` of the stream.
    pub(super) fn at(progress: f64) -> Self {
        let [_, second, third] = ACTS.map(|act| act.begin);
        let trebled = 3.0 * TRAINING_SPAM;
        let spam = [(second, TRAINING_SPAM), (second + CHANGE, trebled)];
        let drift = [(third, 0.0), (third + CHANGE, 1.0)];
        Self {
            spam: along(&spam, progress),
            drift: along(&drift, progress),
        }
    }
}

/// Linear interpolation between points of ascending position, constant before the first and beyond the last.
fn along(points: &[(f64, f64)], position: f64) -> f64 {
    let inside = points
        .windows(2)
        .find(|pair| position <= pair[1].0)
        .or_else(|| points.windows(2).last());
    let Some([(start, from), (end, to)]) = inside else {
        return 0.0;
    };
    let fraction = ((position - start) / (end - start)).clamp(0.0, 1.0);
    from + fraction * (to - from)
}

// === impl MailStream ===

impl MailStream {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            generator: Generator::new(seed),
        }
    }

    /// A mail and its label.
    pub(super) fn next(&mut self, phase: Phase) -> (Mail, u32) {
        let is_spam = self.chance(phase.spam);
        let words: Vec<String> = (0..WORDS)
            .map(|_| self.word(is_spam, phase.drift))
            .collect();
        let footer = if self.chance(phase.drift) {
            FOOTER
        } else {
            0.0
        };
        let mail = Mail {
            subject: words.join(" "),
            sender: self.sender(is_spam),
            links: self.count(LINKS[usize::from(is_spam)]) + footer,
            kilobytes: self.count(12.0) + 1.0,
        };
        (mail, u32::from(is_spam))
    }

    fn word(&mut self, is_spam: bool, drift: f64) -> String {
        if !self.chance(TELLS) {
            let kind = if self.chance(UNSEEN * drift) {
                "season"
            } else {
                "common"
            };
            return format!("{kind}{}", self.generator.below(COMMON));
        }
        let kind = if self.chance(OFFERS[usize::from(is_spam)]) {
            "offer"
        } else {
            "work"
        };
        format!("{kind}{}", self.generator.below(TELLING))
    }

    fn sender(&mut self, is_spam: bool) -> String {
        let unusual = self.chance(if is_spam { 0.6 } else { 0.3 });
        let number = self.generator.below(SENDERS);
        if unusual {
            format!("bulk{number}.example")
        } else {
            format!("office{number}.example")
        }
    }

    /// A binomially distributed number with this mean.
    fn count(&mut self, mean: f64) -> f64 {
        const TRIALS: usize = 24;
        let hits = (0..TRIALS).filter(|_| self.chance(mean / TRIALS as f64));
        hits.count() as f64
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.generator.uniform() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_passes_through_its_points() {
        assert_eq!(Phase::at(0.0), Phase::TRAINING);
        assert_eq!(Phase::at(0.25), Phase::TRAINING);
        assert!((Phase::at(0.26).spam - 0.4).abs() < 1e-12);
        assert_eq!(Phase::at(0.6).drift, 0.0);
        assert_eq!(Phase::at(0.7).drift, 1.0);
        assert_eq!(Phase::at(7.0), Phase::at(1.0));
    }

    #[test]
    fn the_share_of_spam_is_the_schedules() {
        let mut stream = MailStream::new(3);
        let phase = Phase {
            spam: 0.65,
            drift: 0.5,
        };
        let spam: u32 = (0..20_000).map(|_| stream.next(phase).1).sum();
        assert!((f64::from(spam) / 20_000.0 - 0.65).abs() < 0.02);
    }
}
