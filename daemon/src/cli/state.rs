//! `ostard state`.

use std::{
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
};

use anyhow::Result;
use clap::Args;
use ostar_connectors::settings::Period;

use super::{
    client::{DaemonArgs, block_on},
    format::{Format, FormatArgs},
    print,
};
use crate::{error_text::one_line, proto::State, words};

/// Print what a running daemon knows about the stream: class shares with intervals, shift and what is served.
///
/// With --why in words: what is served, since when, and which evidence decided.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ShowState {
    /// Print it again and again, every second or as often as given, until Ctrl-C.
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    watch: Option<Period>,
    /// Say what is served, since when, and which evidence decided. In words, unless JSON is asked for.
    #[arg(long)]
    why: bool,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard state
  ostard state --why
  ostard state --watch
  ostard state --watch=10s --format json >> states.jsonl
  ostard state --format json --address ostard.example:50051 --ca ca.pem --token-file token";

impl ShowState {
    pub(super) fn execute(self) -> Result<()> {
        let Some(period) = self.watch else {
            let state = block_on(self.daemon.state())?;
            return print(&self.render(&state)?);
        };
        let is_screen = self.format() == Format::Table && io::stdout().is_terminal();
        block_on(self.watch(period, |state| {
            let text = self.render(state)?;
            let text = if is_screen {
                format!("{CLEAR}{text}")
            } else {
                text
            };
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            Ok(ControlFlow::Continue(()))
        }))
    }

    fn format(&self) -> Format {
        match self.format.format {
            None if self.why => Format::Table,
            _ => self.format.choose(),
        }
    }

    fn render(&self, state: &State) -> Result<String> {
        Ok(match self.format() {
            Format::Json => serde_json::to_string(state)? + "\n",
            Format::Table if self.why => words::why(state),
            Format::Table => words::summary(state),
        })
    }

    /// Shows the state again and again. The first answer must come; after that a daemon that restarts is waited for.
    async fn watch(
        &self,
        period: Period,
        mut show: impl FnMut(&State) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut state = self.daemon.state().await?;
        loop {
            if show(&state)?.is_break() {
                return Ok(());
            }
            loop {
                tokio::time::sleep(period.get()).await;
                match self.daemon.state().await {
                    Ok(next) => {
                        state = next;
                        break;
                    }
                    // If the error stream is closed, there is nowhere to say it.
                    Err(error) => drop(writeln!(io::stderr(), "error: {}", one_line(&error))),
                }
            }
        }
    }
}

/// Clears the terminal.
const CLEAR: &str = "\x1b[2J\x1b[H";

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        servers::serve,
        serving::fixture::{daemon, settings},
    };

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        state: ShowState,
    }

    #[tokio::test]
    async fn a_daemons_state_is_shown_in_words_and_as_json() {
        let running = serve(daemon().services, &settings()).await.unwrap();
        let address = running.grpc_address.to_string();
        let show = |arguments: &[&str]| {
            let line = ["state", "--address", &address];
            Line::parse_from(line.iter().chain(arguments)).state
        };
        let asked = show(&[]);
        let state = asked.daemon.state().await.unwrap();
        let table = show(&["--format", "table"]).render(&state).unwrap();
        assert!(table.starts_with("model mail, version 3.42, "), "{table}");
        let why = show(&["--why"]).render(&state).unwrap();
        assert!(
            why.starts_with("Mode frozen serves the frozen model"),
            "{why}"
        );
        let json = show(&["--why", "--format", "json"]).render(&state).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["version"], json!({"epoch": 3, "step": 42}));
        assert_eq!(json["mode"], "frozen");
        let spam = &json["classes"][1];
        assert_eq!(spam["name"], "spam");
        assert!(
            spam["served_low"].as_f64() <= spam["served"].as_f64(),
            "{json}"
        );
        assert_eq!(json["gate"]["reason"], "label_shift_explains");
        assert_eq!(json["shares_by_labels"], Value::Null);
        assert!(json["shares_age_ms"].is_u64());
    }

    #[tokio::test]
    async fn a_watch_shows_the_state_again_and_again_and_needs_a_first_answer() {
        let running = serve(daemon().services, &settings()).await.unwrap();
        let address = running.grpc_address.to_string();
        let line = ["state", "--watch=10ms", "--address", &address];
        let state = Line::parse_from(line).state;
        let period = state.watch.unwrap();
        let mut shown = 0;
        let watched = state.watch(period, |state| {
            assert_eq!(state.model, "mail");
            shown += 1;
            Ok(match shown {
                3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        });
        watched.await.unwrap();
        assert_eq!(shown, 3);
        let nobody = Line::parse_from(["state", "--watch", "--address", "127.0.0.1:1"]).state;
        let watched = nobody.watch(period, |_| Ok(ControlFlow::Continue(())));
        assert!(watched.await.is_err());
    }
}
