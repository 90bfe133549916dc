//! `ostard labels`.

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};

use super::{
    client::{DaemonArgs, block_on},
    format::{Format, FormatArgs},
    print,
};
use crate::{proto::State, words::wanted};

/// Which labels a running daemon asks for.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    Wanted(Wanted),
}

/// List the events whose labels are worth having, oldest first. Answers go to labels.topic.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Wanted {
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard labels wanted
  ostard labels wanted --format json | jq -r '.[].id'
  ostard labels wanted --address ostard.example:50051 --ca ca.pem --token-file token";

impl Command {
    pub(super) fn execute(self) -> Result<()> {
        let Self::Wanted(wanted) = self;
        let state = block_on(wanted.daemon.state())?;
        check_shown(&state)?;
        let text = match wanted.format.choose() {
            Format::Table => table(&state),
            Format::Json => serde_json::to_string(&state.wanted_labels)? + "\n",
        };
        print(&text)
    }
}

/// An empty list would say that none is wanted.
fn check_shown(state: &State) -> Result<()> {
    let count = state.wanted_labels_withheld;
    ensure!(
        count == 0,
        "{count} labels are wanted, and the daemon does not show of which events: anybody may call its grpc.listen; set \
         auth.token_file or auth.predict_token_file there, or ask one that listens on 127.0.0.1"
    );
    Ok(())
}

fn table(state: &State) -> String {
    if state.wanted_labels.is_empty() {
        let reads = state
            .gate
            .as_ref()
            .is_some_and(|gate| gate.labels.is_some());
        return if reads {
            "No labels are wanted: candidates agree, or events have no ids.\n".to_owned()
        } else {
            "This daemon reads no labels: set labels.topic, and labels.requests to ask for them.\n"
                .to_owned()
        };
    }
    wanted(&state.wanted_labels).text("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::LabelRequest;

    #[test]
    fn wanted_labels_are_listed_with_what_each_candidate_predicts() {
        let request = LabelRequest {
            id: "mail-7".into(),
            reason: "disagreement".into(),
            block: 3,
            time_ms: 9,
            frozen: "ham".into(),
            prior: "spam".into(),
            adapted: "spam".into(),
        };
        let mut state = State::default();
        assert!(table(&state).contains("set labels.topic"));
        check_shown(&state).unwrap();
        state.wanted_labels_withheld = 3;
        let refused = check_shown(&state).unwrap_err().to_string();
        assert!(refused.starts_with("3 labels are wanted"), "{refused}");
        state.wanted_labels = vec![request];
        let text = table(&state);
        assert!(text.contains("mail-7  disagreement  3"), "{text}");
        let listed = serde_json::to_value(&state.wanted_labels).unwrap();
        assert_eq!(listed[0]["prior"], "spam");
    }
}
