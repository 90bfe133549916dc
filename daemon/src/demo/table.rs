//! The demo's output: a table that is redrawn while the stream runs, and a summary at the end.

use std::time::{Duration, Instant};

use console::Term;
use ostar_method::{
    Candidate,
    diagnostics::Decision,
    learner::Predictor,
    proportions::{Interval, ProportionEstimate},
};
use tokio::sync::watch;

use super::{Options, summary::Summary};
use crate::status::Status;

/// How often the table is drawn on a terminal, and a line printed elsewhere.
const DRAW_EVERY: Duration = Duration::from_millis(250);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// The demo's output.
pub(super) struct Table {
    term: Term,
    json: bool,
}

impl Table {
    /// With `--json` the standard output is for the JSON object, so the table goes to the standard error.
    pub(super) fn new(options: Options) -> Self {
        Self {
            term: if options.json {
                Term::stderr()
            } else {
                Term::stdout()
            },
            json: options.json,
        }
    }

    /// Prints a line. Ignores a terminal that is gone.
    pub(super) fn say(&self, line: &str) {
        let _ = self.term.write_line(line);
    }

    /// Tells the page which act it is, and redraws the table until the status says that the process has ended.
    pub(super) async fn watch(&self, sender: watch::Sender<Status>, summary: &mut Summary) {
        let start = Instant::now();
        let mut status = sender.subscribe();
        let mut drawn = 0;
        let mut last = Instant::now();
        // It may have ended before anybody watched.
        status.mark_changed();
        while status.changed().await.is_ok() {
            let now = status.borrow_and_update().clone();
            summary.observe(&now);
            if now.ended {
                break;
            }
            let act = summary.act(&now).title;
            if now.act != Some(act) {
                sender.send_modify(|status| status.act = Some(act));
            }
            let every = if self.term.is_term() {
                DRAW_EVERY
            } else {
                LINE_EVERY
            };
            if last.elapsed() < every || now.block.is_none() {
                continue;
            }
            last = Instant::now();
            let lines = lines(&now, summary, start.elapsed());
            if self.term.is_term() {
                let _ = self.term.clear_last_lines(drawn);
                drawn = lines.len();
                lines.iter().for_each(|line| self.say(line));
            } else {
                self.say(&lines.join(" | "));
            }
        }
    }

    pub(super) fn conclude(&self, summary: &Summary) {
        let Some(figures) = summary.figures() else {
            return self.say("stopped before the first labels arrived");
        };
        let percent = |fraction: f64| format!("{:.1} %", 100.0 * fraction);
        self.say("");
        self.say(&format!(
            "mails {}, alignment steps {}",
            figures.events, figures.steps
        ));
        self.say(&format!(
            "accuracy  frozen {}   prior {}   adapted {}   served {}",
            percent(figures.accuracy_frozen),
            percent(figures.accuracy_prior),
            percent(figures.accuracy_adapted),
            percent(figures.accuracy_served),
        ));
        for (number, act) in figures.acts.iter().enumerate() {
            let percent = |accuracy: Option<f64>| accuracy.map_or("-".to_owned(), percent);
            self.say(&format!(
                "  act {}, {}: frozen {}   prior {}   adapted {}   served {} ({})",
                number + 1,
                act.name,
                percent(act.accuracy_frozen),
                percent(act.accuracy_prior),
                percent(act.accuracy_adapted),
                percent(act.accuracy_served),
                act.served,
            ));
        }
        self.say(&format!(
            "share of spam: mean l1 error {:.3}",
            figures.proportion_l1_mean
        ));
        if self.json
            && let Ok(line) = serde_json::to_string(&figures)
        {
            let _ = Term::stdout().write_line(&line);
        }
    }
}

fn lines(status: &Status, summary: &Summary, elapsed: Duration) -> Vec<String> {
    let with_interval = |share: f64, interval: Interval| {
        format!("{share:.3} [{:.3}, {:.3}]", interval.low, interval.high)
    };
    let spam = |estimate: &ProportionEstimate| {
        if !estimate.known {
            return "cannot be told".to_owned();
        }
        with_interval(estimate.proportions[1], estimate.intervals[1])
    };
    let by_labels = status.shares_by_labels.as_ref().map(|shares| {
        let spam = shares.classes[1];
        let told = with_interval(spam.share, spam.interval);
        format!("  by {} labels {told}", shares.labels)
    });
    let mut lines = vec![format!(
        "{:5.1} s  {}  mails {:6}  steps {:5}  version {}.{}",
        elapsed.as_secs_f64(),
        summary.act(status).title,
        status.events,
        status.steps,
        status.version.epoch,
        status.version.step
    )];
    if let Some(block) = &status.block {
        let adapted = block.adapted.as_ref().map(spam).unwrap_or_default();
        lines.push(format!(
            "share of spam  true {:.3}  frozen {}  adapted {adapted}{}",
            summary.truth(status),
            spam(&block.frozen),
            by_labels.unwrap_or_default()
        ));
        let verdict = &block.verdict;
        lines.push(format!("served {}: {}", verdict.candidate, verdict.reason));
    }
    let answers = summary.answers();
    if let [Some(frozen), Some(prior), Some(adapted)] =
        Candidate::ALL.map(|candidate| answers.accuracy(Predictor::Candidate(candidate)))
    {
        let [frozen, prior, adapted] = [frozen, prior, adapted].map(|share| 100.0 * share);
        lines.push(format!(
            "accuracy by {} random labels  frozen {frozen:.1} %  prior {prior:.1} %  adapted {adapted:.1} %",
            answers.count()
        ));
    }
    if let Some(refresh) = &status.refresh {
        let guard = match &refresh.decision {
            Decision::Serve => "serves".to_owned(),
            Decision::Refuse(reason) => format!("refuses: {reason}"),
        };
        lines.push(format!(
            "shift of wording  before map {:.3}  after {:.3}  noise floor {:.3}  guard {guard}",
            refresh.distance_before_map, refresh.distance_after_map, refresh.noise_floor
        ));
    }
    lines
}
