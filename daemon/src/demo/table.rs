//! The demo's output: a table that is redrawn while the stream runs, and a summary at the end.

use std::time::{Duration, Instant};

use console::Term;
use tokio::sync::watch;

use super::{Options, meter::Meter, summary::Summary};
use crate::{facts::has_shares, proto::State, status::Status, words};

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

    /// Shows the page which act it is, and redraws the table until the status says that the process has ended.
    pub(super) async fn watch(
        &self,
        sender: watch::Sender<Status>,
        state: impl Fn(&Status) -> State,
        summary: &mut Summary,
    ) {
        let start = Instant::now();
        let mut status = sender.subscribe();
        let mut drawn = 0;
        let mut last = Instant::now();
        // It may have ended before anybody watched.
        status.mark_changed();
        while status.changed().await.is_ok() {
            let (now, shown, ended) = {
                let status = status.borrow_and_update();
                (state(&status), status.act, status.ended)
            };
            summary.observe(&now);
            if ended {
                break;
            }
            let act = summary.act(&now).title;
            if shown != Some(act) {
                sender.send_modify(|status| status.act = Some(act));
            }
            let every = if self.term.is_term() {
                DRAW_EVERY
            } else {
                LINE_EVERY
            };
            if last.elapsed() < every || !has_shares(&now) {
                continue;
            }
            last = Instant::now();
            let first = first_line(&now, summary, start.elapsed());
            if self.term.is_term() {
                let tables = words::summary(&now) + &words::candidates(&now).text("none");
                let text = format!("{first}\n{tables}{}", words::in_short(&now));
                let _ = self.term.clear_last_lines(drawn);
                drawn = text.lines().count();
                text.lines().for_each(|line| self.say(line));
            } else {
                self.say(&format!("{first} | {}", words::in_short(&now)));
            }
        }
    }

    pub(super) fn conclude(&self, summary: &Summary, meter: &Meter) {
        let Some(figures) = summary.figures(meter) else {
            return self.say("stopped before the first block was full");
        };
        self.say("");
        self.say(&format!(
            "mails {}, alignment steps {}",
            figures.events, figures.steps
        ));
        self.say(&format!("accuracy  {}", figures.accuracies));
        for (number, act) in figures.acts.iter().enumerate() {
            let (number, name, served) = (number + 1, act.name, &act.served);
            if let Some(accuracies) = act.accuracies {
                self.say(&format!("  act {number}, {name}: {accuracies} ({served})"));
            }
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

fn first_line(state: &State, summary: &Summary, elapsed: Duration) -> String {
    format!(
        "{:5.1} s  {}  mails {:6}  true share of spam {:.1} %",
        elapsed.as_secs_f64(),
        summary.act(state).title,
        state.events,
        100.0 * summary.truth(state)
    )
}
