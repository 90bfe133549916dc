//! `ostard state`.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
};

use anyhow::Result;
use clap::Args;
use ostar_connectors::settings::Period;
use serde_json::{Value, json};

use super::{
    alarms::{alarms_in_json, standing},
    client::{ConnectionArgs, ask_state, block_on, inference_address, mode_name},
    explain::{gate_in_json, shares_in_json},
    format::{Format, FormatArgs, Table},
};
use crate::{
    error_text::one_line,
    proto::{ClassProportions, State},
};

/// Print what a running daemon knows about the stream: class shares with intervals, shift and what is served.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ShowState {
    /// Address of the daemon: its grpc.listen.
    #[arg(long, value_name = "HOST:PORT", default_value_t = inference_address())]
    address: String,
    /// Print it again and again, every second or as often as given, until Ctrl-C.
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, require_equals = true, default_missing_value = "1s")]
    watch: Option<Period>,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const EXAMPLES: &str = "\
Examples:
  ostard state
  ostard state --watch
  ostard state --watch=10s --format json >> states.jsonl
  ostard state --format json --address ostard.example:50051 --ca ca.pem --token-file token";

impl ShowState {
    pub(super) fn execute(self) -> Result<()> {
        let format = self.format.choose();
        let Some(period) = self.watch else {
            let state = block_on(ask_state(&self.connection, &self.address))?;
            io::stdout().write_all(render(&state, format).as_bytes())?;
            return Ok(());
        };
        let is_screen = format == Format::Table && io::stdout().is_terminal();
        block_on(self.watch(period, |state| {
            let text = render(state, format);
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

    /// Shows the state again and again. The first answer must come; after that a daemon that restarts is waited for.
    async fn watch(
        &self,
        period: Period,
        mut show: impl FnMut(&State) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut state = ask_state(&self.connection, &self.address).await?;
        loop {
            if show(&state)?.is_break() {
                return Ok(());
            }
            loop {
                tokio::time::sleep(period.get()).await;
                match ask_state(&self.connection, &self.address).await {
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

fn render(state: &State, format: Format) -> String {
    match format {
        Format::Table => table(state),
        Format::Json => format!("{}\n", in_json(state)),
    }
}

/// How long ago, in the unit that people would use.
fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn table(state: &State) -> String {
    let version = state.version.unwrap_or_default();
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "model {}, version {}.{}, mode {}, {} events, {} steps{}{}",
        state.model,
        version.epoch,
        version.step,
        mode_name(state.mode()),
        state.events,
        state.steps,
        if state.paused { ", paused" } else { "" },
        if state.standby { ", standing by" } else { "" },
    );
    let by_labels = state.shares_by_labels.as_ref();
    let by_labels_head = by_labels.map(|shares| format!("by {} labels", shares.labels));
    let mut head = vec!["class", "training", "share"];
    head.extend(by_labels_head.as_deref());
    head.extend(["frozen", "adapted"]);
    let mut table = Table::new(&head);
    let interval = |share: f64, low: f64, high: f64| match state.events {
        0 => "not known yet".to_owned(),
        _ => format!("{share:.3} [{low:.3}, {high:.3}]"),
    };
    let untold = untold(state);
    let row = |(number, class): (usize, &ClassProportions)| {
        let served = untold.map_or_else(
            || interval(class.served, class.served_low, class.served_high),
            str::to_owned,
        );
        let mut cells = vec![class.name.clone(), format!("{:.3}", class.training), served];
        let found = by_labels.and_then(|shares| shares.classes.get(number));
        cells.extend(found.map(|found| interval(found.share, found.low, found.high)));
        cells.extend([
            interval(class.frozen, class.frozen_low, class.frozen_high),
            interval(class.adapted, class.adapted_low, class.adapted_high),
        ]);
        cells
    };
    text += &table.lines(state.classes.iter().enumerate().map(row).collect());
    if let Some(milliseconds) = state.shares_age_ms {
        let _ = writeln!(text, "shares: estimated {} ago", age(milliseconds));
    }
    if let Some(shift) = &state.shift {
        let _ = writeln!(
            text,
            "shift: distance {:.3} before the map, {:.3} after it, noise floor {:.3}",
            shift.distance_before_map, shift.distance_after_map, shift.noise_floor
        );
        if let Some(largest) = &shift.largest_movement {
            let _ = writeln!(
                text,
                "movement: {} moves farthest, {:.3} of the squared distance to the nearest other class",
                largest.class, largest.ratio
            );
        }
    }
    for alarm in state.alarms.iter().flat_map(standing) {
        let _ = writeln!(text, "alarm: {}", alarm.explanation);
    }
    let inputs = state.alarms.iter().flat_map(|alarms| &alarms.inputs);
    for field in inputs.filter(|field| field.broken) {
        let _ = writeln!(text, "broken input: {}", field.explanation);
    }
    if !state.refusal.is_empty() {
        let _ = writeln!(
            text,
            "the guard refuses the newest state: {}",
            state.refusal
        );
    }
    text
}

/// What stands in the place of shares that are not known.
fn untold(state: &State) -> Option<&'static str> {
    let gate = state.gate.as_ref()?;
    match (gate.refuted, gate.proportions_unknown) {
        (true, true) => Some("cannot be told: the classes changed"),
        (false, true) => Some("cannot be told yet"),
        (_, false) => None,
    }
}

fn proportions_unknown(state: &State) -> bool {
    let gate = state.gate.as_ref();
    gate.is_some_and(|gate| gate.proportions_unknown)
}

fn in_json(state: &State) -> Value {
    let share = |share: f64, low, high| json!({"share": share, "low": low, "high": high});
    let known = !proportions_unknown(state);
    let class = |class: &ClassProportions| {
        json!({
            "name": class.name,
            "training": class.training,
            "served": {
                "share": known.then_some(class.served),
                "low": class.served_low,
                "high": class.served_high,
            },
            "frozen": share(class.frozen, class.frozen_low, class.frozen_high),
            "adapted": share(class.adapted, class.adapted_low, class.adapted_high),
        })
    };
    let version = state.version.unwrap_or_default();
    let shift = state.shift.as_ref().map(|shift| {
        let largest = shift.largest_movement.as_ref();
        let largest = largest.map(|largest| json!({"class": largest.class, "ratio": largest.ratio}));
        json!({"distance_before_map": shift.distance_before_map, "distance_after_map": shift.distance_after_map, "noise_floor": shift.noise_floor, "largest_movement": largest})
    });
    json!({
        "model": state.model,
        "version": {"epoch": version.epoch, "step": version.step},
        "mode": mode_name(state.mode()),
        "events": state.events,
        "steps": state.steps,
        "paused": state.paused,
        "standby": state.standby,
        "refusal": state.refusal,
        "shift": shift,
        "gate": state.gate.as_ref().map(gate_in_json),
        "shares_age_ms": state.shares_age_ms,
        "shares_by_labels": state.shares_by_labels.as_ref().map(shares_in_json),
        "alarms": state.alarms.as_ref().map(alarms_in_json),
        "classes": state.classes.iter().map(class).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{
        servers::serve,
        serving::fixture::{
            daemon, daemon_after, learned_elsewhere, learned_with_labels, settings,
        },
    };

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        state: ShowState,
    }

    #[tokio::test]
    async fn a_daemons_state_is_shown_as_a_table_and_as_json() {
        let running = serve(daemon().services, &settings()).await.unwrap();
        let address = running.grpc_address.to_string();
        let state = Line::parse_from(["state", "--address", &address]).state;
        let state = ask_state(&state.connection, &state.address).await.unwrap();
        let text = table(&state);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "model mail, version 3.42, mode frozen, 500 events, 1 steps"
        );
        assert!(lines[1].starts_with("class  training  share "), "{text}");
        assert!(lines[2].starts_with("ham    0.500     0."), "{text}");
        assert!(lines[4].starts_with("shares: estimated "), "{text}");
        assert!(lines[5].starts_with("shift: distance 0."), "{text}");
        let largest = in_json(&state)["shift"]["largest_movement"].clone();
        let class = largest["class"].as_str().unwrap();
        assert!(["ham", "spam"].contains(&class), "{largest}");
        let told = format!("movement: {class} moves farthest, 0.");
        assert!(lines[6].starts_with(&told), "{text}");
        assert!(in_json(&state)["shares_age_ms"].is_u64());
        let json = in_json(&state);
        assert_eq!(json["version"], json!({"epoch": 3, "step": 42}));
        assert_eq!(json["classes"][1]["name"], "spam");
        let served = &json["classes"][1]["served"];
        assert!(served["low"].as_f64() <= served["share"].as_f64(), "{json}");
    }

    #[test]
    fn an_age_is_told_in_the_unit_that_people_use() {
        let told = [
            (900, "0 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
        ];
        for (milliseconds, text) in told {
            assert_eq!(age(milliseconds), text);
        }
        assert_eq!(age(3 * 86_400_000), "3 days");
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

    #[tokio::test]
    async fn shares_of_classes_that_changed_are_not_shown() {
        let services = daemon_after(learned_elsewhere).services;
        let running = serve(services, &settings()).await.unwrap();
        let address = running.grpc_address.to_string();
        let state = Line::parse_from(["state", "--address", &address]).state;
        let state = ask_state(&state.connection, &state.address).await.unwrap();
        let text = table(&state);
        let line = "spam   0.500     cannot be told: the classes changed  ";
        assert!(text.contains(line), "{text}");
        let served = json!({"share": null, "low": 0.0, "high": 1.0});
        assert_eq!(in_json(&state)["classes"][1]["served"], served);
        assert_eq!(in_json(&state)["shares_by_labels"], Value::Null);
    }

    #[tokio::test]
    async fn shares_by_labels_stand_beside_those_that_cannot_be_told() {
        let services = daemon_after(learned_with_labels).services;
        let running = serve(services, &settings()).await.unwrap();
        let address = running.grpc_address.to_string();
        let state = Line::parse_from(["state", "--address", &address]).state;
        let state = ask_state(&state.connection, &state.address).await.unwrap();
        let text = table(&state);
        assert!(text.contains("  by 200 labels "), "{text}");
        let line = "spam   0.500     cannot be told: the classes changed  0.900 [0.870, 0.930]  ";
        assert!(text.contains(line), "{text}");
        let shares = &in_json(&state)["shares_by_labels"];
        assert_eq!(
            (&shares["labels"], &shares["last_block"]),
            (&json!(200), &json!(11))
        );
        let spam = json!({"name": "spam", "share": 0.9, "low": 0.87, "high": 0.93});
        assert_eq!(shares["classes"][1], spam);
    }
}
