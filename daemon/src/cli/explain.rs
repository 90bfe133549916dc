//! `ostard explain`.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use anyhow::Result;
use clap::Args;
use ostar_method::gate::at_strength;
use serde_json::{Value, json};

use super::{
    alarms::{alarms_in_json, alarms_in_words, broken_in_words, inputs_in_words},
    client::{ConnectionArgs, ask_state, block_on, inference_address, mode_name},
    format::Table,
};
use crate::{
    current::ServingMode,
    proto::{
        GateDecision, GateState, GateTest, LabelDuel, LabelEvidence, ShareByLabels, SharesByLabels,
        State,
    },
};

/// Explain what a running daemon serves, since when, and which evidence decided.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Explain {
    /// Address of the daemon: its grpc.listen.
    #[arg(long, value_name = "HOST:PORT", default_value_t = inference_address())]
    address: String,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard explain
  ostard explain --json --address ostard.example:50051 --ca ca.pem --token-file token";

impl Explain {
    pub(super) fn execute(self) -> Result<()> {
        let state = block_on(ask_state(&self.connection, &self.address))?;
        let text = if self.json {
            format!("{}\n", in_json(&state))
        } else {
            in_words(&state)
        };
        io::stdout().write_all(text.as_bytes())?;
        Ok(())
    }
}

fn in_words(state: &State) -> String {
    let gate = &state.gate.clone().unwrap_or_default();
    let mut text = served(state, gate);
    // Writing to a String does not fail.
    let _ = writeln!(text, "Why: {}.", gate.explanation);
    text += &broken_in_words(state.alarms.as_ref());
    if gate.proportions_unknown {
        text += if gate.refuted {
            match &state.shares_by_labels {
                None => "Class shares cannot be told: the classes changed. Labels would tell.\n",
                Some(_) => "Class shares are told by labels alone: the classes changed.\n",
            }
        } else {
            "Class shares cannot be told yet: no window of events has passed the tests clearly.\n"
        };
    }
    if gate.adapted_ready && gate.candidate != "adapted" {
        text += "The adapted model explains the stream and is ready. It waits for labels: without them it may be wrong.\n";
    }
    text += &shares_in_words(state.shares_by_labels.as_ref());
    text += "\nEvidence that only the shares moved:\n";
    if gate.tests.is_empty() {
        text += "none yet\n";
    } else {
        let mut table = Table::new(&["test", "measured", "limit", "result", "compares"]);
        text += &table.lines(gate.tests.iter().map(test_cells).collect());
    }
    text += &by_labels(gate);
    text += &alarms_in_words(state.alarms.as_ref());
    text += &inputs_in_words(state.alarms.as_ref());
    text += "\nDecisions, newest first:\n";
    if gate.history.is_empty() {
        text += "none yet\n";
    } else {
        let mut table = Table::new(&["after block", "mode auto serves", "because"]);
        let cells = |decision: &GateDecision| {
            vec![
                decision.block.to_string(),
                decision.candidate.clone(),
                decision.explanation.clone(),
            ]
        };
        text += &table.lines(gate.history.iter().rev().map(cells).collect());
    }
    text
}

/// Class shares by labels; empty while there are too few.
fn shares_in_words(shares: Option<&SharesByLabels>) -> String {
    let Some(shares) = shares else {
        return String::new();
    };
    let mut text = format!(
        "\nClass shares by {} labels of randomly drawn events, for {} events of blocks {} to {}:\n",
        shares.labels, shares.rows, shares.first_block, shares.last_block
    );
    let mut table = Table::new(&["class", "share", "95 % interval"]);
    let cells = |found: &ShareByLabels| {
        let interval = format!("{:.3} to {:.3}", found.low, found.high);
        vec![found.name.clone(), format!("{:.3}", found.share), interval]
    };
    text += &table.lines(shares.classes.iter().map(cells).collect());
    text
}

pub(super) fn shares_in_json(shares: &SharesByLabels) -> Value {
    let class = |found: &ShareByLabels| json!({"name": found.name, "share": found.share, "low": found.low, "high": found.high});
    json!({
        "labels": shares.labels,
        "rows": shares.rows,
        "first_block": shares.first_block,
        "last_block": shares.last_block,
        "classes": shares.classes.iter().map(class).collect::<Vec<_>>(),
    })
}

/// What labels say; empty if none are read.
fn by_labels(gate: &GateState) -> String {
    let Some(evidence) = &gate.labels else {
        return String::new();
    };
    let mut text = format!(
        "\nEvidence by labels ({:.0}, each counts 5 % less with every block):\n",
        evidence.labels
    );
    if evidence.of_one_class {
        text +=
            "All labels are of one class, so that they were selected by it: they decide nothing.\n";
    }
    let by_class = evidence.objective != "probability";
    let [first, second, third] = if by_class {
        ["right", "wrong", "chance to be better"]
    } else {
        ["mean gain in log loss", "", ""]
    };
    let mut table = Table::new(&[
        "candidate",
        "against",
        first,
        second,
        third,
        "bets on it became",
    ]);
    let cells = |duel: &LabelDuel| {
        let figures = if by_class {
            [
                format!("{:.1}", duel.right),
                format!("{:.1}", duel.wrong),
                format!("{:.2}", duel.probability),
            ]
        } else {
            let gain = format!("{:+.4}", duel.mean_gain);
            [gain, String::new(), String::new()]
        };
        let mut cells = vec![duel.challenger.clone(), duel.incumbent.clone()];
        cells.extend(figures);
        cells.push(format!("{:.1} of 20", duel.challenger_wealth));
        cells
    };
    text += &table.lines(evidence.duels.iter().map(cells).collect());
    text
}

/// What is served, and what mode `auto` would serve if that is not the mode.
fn served(state: &State, gate: &GateState) -> String {
    let model = match &*gate.candidate {
        "prior" => format!(
            "{}{}",
            model_name("prior"),
            at_strength(gate.prior_strength)
        ),
        candidate => model_name(candidate).to_owned(),
    };
    let since = match gate.since_block {
        0 => "from the start".to_owned(),
        block => format!("since block {block}"),
    };
    let fixed = match state.mode().serving() {
        Some(ServingMode::Auto) | None => {
            return format!("Mode auto serves the {model} {since}.\n");
        }
        Some(ServingMode::Frozen | ServingMode::Shadow) => "frozen",
        Some(ServingMode::Prior) => "prior",
        Some(ServingMode::Adapted) => "adapted",
    };
    format!(
        "Mode {} serves the {}, whatever the evidence says. Mode auto would serve the {model} {since}.\n",
        mode_name(state.mode()),
        model_name(fixed),
    )
}

fn model_name(candidate: &str) -> &str {
    match candidate {
        "frozen" => "frozen model",
        "prior" => "prior-corrected model",
        "adapted" => "adapted model",
        other => other,
    }
}

fn test_cells(test: &GateTest) -> Vec<String> {
    let GateTest {
        name,
        statistic,
        limit,
    } = test;
    let number = |value: f64| {
        if name == "support" {
            format!("{:.1} %", 100.0 * value)
        } else {
            format!("{value:.3}")
        }
    };
    let result = if statistic > limit {
        format!("fails, {:.1} times its limit", statistic / limit)
    } else if *limit > 0.0 {
        format!("passes, at {:.0} % of its limit", 100.0 * statistic / limit)
    } else {
        "passes".to_owned()
    };
    let compares = match name.as_str() {
        "scores" => "the frozen model's scores with those of training at the best shares",
        "latents" => "the latents with those of training at the same shares",
        "support" => "how many rows lie where training data has none",
        _ => "",
    };
    vec![
        name.clone(),
        number(*statistic),
        number(*limit),
        result,
        compares.to_owned(),
    ]
}

fn in_json(state: &State) -> Value {
    json!({
        "model": state.model,
        "mode": mode_name(state.mode()),
        "gate": state.gate.as_ref().map(gate_in_json),
        "shares_by_labels": state.shares_by_labels.as_ref().map(shares_in_json),
        "alarms": state.alarms.as_ref().map(alarms_in_json),
    })
}

fn labels_in_json(evidence: &LabelEvidence) -> Value {
    let duel = |duel: &LabelDuel| {
        json!({
            "challenger": duel.challenger,
            "incumbent": duel.incumbent,
            "right": duel.right,
            "wrong": duel.wrong,
            "probability": duel.probability,
            "mean_gain": duel.mean_gain,
            "challenger_wealth": duel.challenger_wealth,
            "incumbent_wealth": duel.incumbent_wealth,
        })
    };
    json!({
        "objective": evidence.objective,
        "labels": evidence.labels,
        "of_one_class": evidence.of_one_class,
        "adapted_open": evidence.adapted_open,
        "duels": evidence.duels.iter().map(duel).collect::<Vec<_>>(),
    })
}

pub(super) fn gate_in_json(gate: &GateState) -> Value {
    let test = |test: &GateTest| {
        json!({
            "name": test.name,
            "statistic": test.statistic,
            "limit": test.limit,
            "passes": test.statistic <= test.limit,
        })
    };
    let decision = |decision: &GateDecision| {
        json!({
            "block": decision.block,
            "candidate": decision.candidate,
            "explanation": decision.explanation,
        })
    };
    json!({
        "candidate": gate.candidate,
        "reason": gate.reason,
        "explanation": gate.explanation,
        "since_block": gate.since_block,
        "prior_strength": gate.prior_strength,
        "refuted": gate.refuted,
        "adapted_ready": gate.adapted_ready,
        "proportions_known": !gate.proportions_unknown,
        "labels": gate.labels.as_ref().map(labels_in_json),
        "tests": gate.tests.iter().map(test).collect::<Vec<_>>(),
        "history": gate.history.iter().map(decision).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{
        proto::Mode,
        servers::serve,
        serving::fixture::{
            Learned, daemon_after, learned, learned_elsewhere, learned_with_labels, settings,
        },
    };

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        explain: Explain,
    }

    async fn ask(learn: fn(&ostar_bundle::Bundle) -> Learned) -> State {
        let services = daemon_after(learn).services;
        let running = serve(services, &settings()).await.unwrap();
        let address = running.grpc_address.to_string();
        let explain = Line::parse_from(["explain", "--address", &address]).explain;
        ask_state(&explain.connection, &explain.address)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn label_shift_is_explained_by_tests_within_their_limits() {
        let mut state = ask(learned).await;
        let text = in_words(&state);
        let first = "Mode frozen serves the frozen model, whatever the evidence says. \
                     Mode auto would serve the prior-corrected model since block 1.\n\
                     Why: label shift explains the last 500 rows.\n";
        assert!(text.starts_with(first), "{text}");
        assert_eq!(text.matches("  passes, at ").count(), 3, "{text}");
        state.set_mode(Mode::Auto);
        let text = in_words(&state);
        assert!(
            text.starts_with("Mode auto serves the prior-corrected model since block 1.\n"),
            "{text}"
        );
        assert!(!text.contains("cannot be told"), "{text}");
    }

    #[tokio::test]
    async fn changed_classes_are_explained_by_the_test_that_failed() {
        let mut state = ask(learned_elsewhere).await;
        state.set_mode(Mode::Auto);
        let text = in_words(&state);
        assert!(
            text.starts_with("Mode auto serves the frozen model since block 1.\nWhy: "),
            "{text}"
        );
        assert!(text.contains("Class shares cannot be told"), "{text}");
        assert!(
            text.contains("support  100.0 %   10.0 %  fails, 10.0 times its limit"),
            "{text}"
        );
        assert!(text.contains("\n1            frozen "), "{text}");
        let gate = &in_json(&state)["gate"];
        assert_eq!(gate["refuted"], true);
        assert_eq!(gate["proportions_known"], false);
        assert_eq!(gate["tests"][2]["passes"], false);
        assert_eq!(gate["history"][0]["block"], 1);
    }

    #[tokio::test]
    async fn where_the_classes_changed_labels_tell_the_shares() {
        let state = ask(learned_with_labels).await;
        let text = in_words(&state);
        assert!(
            text.contains("Class shares are told by labels alone"),
            "{text}"
        );
        let head = "Class shares by 200 labels of randomly drawn events, for 5000 events of blocks 2 to 11:\n";
        assert!(text.contains(head), "{text}");
        assert!(text.contains("\nspam   0.900  0.870 to 0.930\n"), "{text}");
        assert_eq!(in_json(&state)["shares_by_labels"]["rows"], 5000);
    }
}
