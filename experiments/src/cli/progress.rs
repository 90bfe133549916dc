//! A progress bar over all runs of a job.

use indicatif::{ProgressBar, ProgressStyle};

/// Positions of the bar that one run takes.
const POSITIONS: u64 = 1_000;

/// Draws nothing where there is no terminal.
#[derive(Debug)]
pub(super) struct JobProgress {
    bar: ProgressBar,
    finished: u64,
}

impl JobProgress {
    pub(super) fn new(runs: usize) -> Self {
        let style = "{msg}\n{wide_bar} {percent}% of all runs, {elapsed} gone, {eta} left";
        let bar = ProgressBar::new(runs as u64 * POSITIONS);
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self { bar, finished: 0 }
    }

    pub(super) fn name(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// How much of the current run is done, from 0 to 1.
    pub(super) fn set_fraction(&self, fraction: f64) {
        self.bar
            .set_position(self.finished + (fraction * POSITIONS as f64) as u64);
    }

    /// Prints `line` above the bar, or to the standard output where there is no terminal.
    #[expect(clippy::print_stdout, reason = "results are the program's output")]
    pub(super) fn finish_run(&mut self, line: &str) {
        self.finished += POSITIONS;
        self.bar.set_position(self.finished);
        if self.bar.is_hidden() {
            println!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}
