//! How far a job is, and how long it will take.

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar that one run takes.
const STEPS: u64 = 1_000;

/// A bar over all runs of a job; nothing is drawn where there is no terminal.
#[derive(Debug)]
pub(super) struct JobProgress {
    bar: ProgressBar,
    finished: u64,
}

impl JobProgress {
    pub(super) fn new(runs: usize) -> Self {
        let style = "{msg}\n{wide_bar} {percent}% of all runs, {elapsed} gone, {eta} left";
        let bar = ProgressBar::new(runs as u64 * STEPS);
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { bar, finished: 0 }
    }

    /// Names what is running.
    pub(super) fn name(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// How much of the run is done, from 0 to 1.
    pub(super) fn share(&self, share: f64) {
        self.bar
            .set_position(self.finished + (share * STEPS as f64) as u64);
    }

    /// A run is done; `line` stays above the bar, or goes to the output where there is no terminal.
    #[expect(clippy::print_stdout, reason = "results are the program's output")]
    pub(super) fn finish_run(&mut self, line: &str) {
        self.finished += STEPS;
        self.bar.set_position(self.finished);
        match self.bar.is_hidden() {
            true => println!("{line}"),
            false => self.bar.println(line),
        }
    }
}
