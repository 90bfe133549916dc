//! Scorers and learners as processes of their own, over topics.

use std::{
    collections::BTreeMap,
    process::{Command, Output},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use ostar_tests::{
    daemon::{Daemon, Settings, TIMEOUT},
    gaussians,
    kafka::Kafka,
    state, until,
};

use ostar_harness::{Place, promises};

use crate::{Alone, PROGRAM, Test, start};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "scorers_that_join_leave_and_die_leave_no_event_without_a_prediction_and_the_learner_learns_each_once",
        rebalances,
    ),
    (
        "a_bound_on_samples_is_kept_and_the_same_events_are_drawn",
        sampled,
    ),
    (
        "a_backtest_gives_block_by_block_what_a_scorer_serves",
        backtested,
    ),
    (
        "a_backtest_gives_block_by_block_what_the_daemon_gives_for_more_seeds",
        backtested_alone,
    ),
];

pub(crate) const ALONE: &[(&str, Alone)] = &[(
    "orders_and_snapshots_reach_every_scorer_and_a_standby_takes_over",
    followed,
)];

const PARTITIONS: i32 = 4;
const EVENTS: usize = 12_000;
/// The bound of ARCHITECTURE.md for one crash.
const MOST_REPEATS: usize = 2_000 + 2_048;
const STEP: &str = "ostar_model_version_step";

/// Creates all topics of a split daemon.
pub(crate) fn topics(kafka: &Kafka, name: &str) -> Result<()> {
    kafka.create_topic(name, PARTITIONS, &[])?;
    for topic in ["samples", "predictions", "parked"] {
        kafka.create_topic(&format!("{name}-{topic}"), 1, &[])?;
    }
    kafka.create_topic(&format!("{name}-state"), 1, &state::TOPIC)
}

fn shared(place: &Place, kafka: &Kafka, name: &str) -> Settings {
    place
        .settings(kafka, name, "none")
        .without("checkpoints.folder")
        .with("kafka.group", &format!("{name}-group"))
        .with("checkpoints.topic", &format!("{name}-state"))
        .with("checkpoints.session_timeout", "3s")
        .with("checkpoints.heartbeat", "500ms")
        .with("samples.topic", &format!("{name}-samples"))
        .with("samples.per_second", "100000000")
        .with("grpc.control_listen", "127.0.0.1:0")
}

pub(crate) fn scorer(place: &Place, kafka: &Kafka, name: &str) -> Settings {
    shared(place, kafka, name)
        .with("role", "scorer")
        .with("predictions.topic", &format!("{name}-predictions"))
        .with("parked.topic", &format!("{name}-parked"))
        .with("kafka.options.session.timeout.ms", "3000")
        .with("kafka.options.heartbeat.interval.ms", "500")
}

pub(crate) fn learner(place: &Place, kafka: &Kafka, name: &str) -> Settings {
    shared(place, kafka, name)
        .with("role", "learner")
        .with("checkpoints.store", "kafka")
}

/// Sends a part of the events to all partitions in turn.
pub(crate) fn produce(kafka: &Kafka, name: &str, events: &[Vec<u8>]) -> Result<()> {
    for partition in 0..PARTITIONS {
        let own = events.iter().skip(partition as usize);
        kafka.produce(name, partition, own.step_by(PARTITIONS as usize))?;
    }
    Ok(())
}

/// How often each event was predicted.
fn predicted(kafka: &Kafka, topic: &str) -> Result<BTreeMap<(i32, i64), usize>> {
    let partitions = kafka.header_values(topic, "ostar-partition")?;
    let offsets = kafka.header_values(topic, "ostar-offset")?;
    let mut counts = BTreeMap::new();
    // Somebody may have written between the two reads.
    for (partition, offset) in partitions.iter().zip(&offsets) {
        *counts
            .entry((partition.parse()?, offset.parse()?))
            .or_insert(0) += 1;
    }
    Ok(counts)
}

fn rebalances(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    topics(kafka, "split")?;
    let (rows, _) = gaussians::draw(EVENTS, 0.6, 0.3, 7);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let mut pieces = events.chunks(EVENTS / 6);
    let mut feed = || produce(kafka, "split", pieces.next().unwrap_or_default());
    let settings = scorer(&place, kafka, "split");

    let teacher = start(&learner(&place, kafka, "split"))?;
    let first = start(&settings)?;
    first.logged("the group has assigned partitions")?;
    feed()?;
    let second = start(&settings)?;
    second.logged("the group has assigned partitions")?;
    feed()?;
    let third = start(&settings)?;
    feed()?;
    first.stop_cleanly()?;
    feed()?;
    second.kill()?;
    feed()?;
    let fourth = start(&settings)?;
    feed()?;
    let counts = until("a prediction of every event", TIMEOUT, || {
        let counts = predicted(kafka, "split-predictions")?;
        Ok((counts.len() >= EVENTS).then_some(counts))
    })
    .with_context(|| format!("the log is {:#?}", third.log()))?;
    ensure!(counts.len() == EVENTS);
    let repeats = counts.values().sum::<usize>() - EVENTS;
    ensure!(
        repeats <= MOST_REPEATS,
        "{repeats} predictions were repeated"
    );
    // Whatever came twice was learned once.
    let blocks = (EVENTS - EVENTS % 250) as u64;
    state::reaches(kafka, "split-state", blocks)
        .with_context(|| format!("the log is {:#?}", teacher.log()))?;
    third.stop_cleanly()?;
    fourth.stop_cleanly()?;
    teacher.stop_cleanly()?;
    let kept = state::checkpoint(kafka, "split-state")?.context("no checkpoint")?;
    let position = &kept.0["position"];
    ensure!(position["events"] == blocks, "{position}");
    let (sampled, offsets) = (&position["sampled"], &position["learned"]);
    ensure!(
        sampled.as_object().is_some_and(|seen| seen.len() == 4),
        "{sampled}"
    );
    let samples = kafka.end("split-samples")?;
    ensure!(offsets["0"].as_i64() <= Some(samples), "{offsets}");

    // An undisturbed learner of the same samples has the same state.
    kafka.create_topic("again-state", 1, &state::TOPIC)?;
    let again = learner(&place, kafka, "split")
        .with("kafka.group", "again-group")
        .with("checkpoints.topic", "again-state");
    let again = start(&again)?;
    state::reaches(kafka, "again-state", blocks)?;
    again.stop_cleanly()?;
    let replayed = state::checkpoint(kafka, "again-state")?.context("no checkpoint")?;
    state::same_learning(kept, replayed)
}

fn ctl(daemon: &Daemon, order: &[&str]) -> Result<Output> {
    let address = daemon.address("control_address")?;
    let mut command = Command::new(PROGRAM);
    let command = command.args(["ctl", "--address", &address]).args(order);
    Ok(command.output()?)
}

fn followed(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    topics(kafka, "led")?;
    let (rows, _) = gaussians::draw(4_000, 0.6, 0.3, 7);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    let scorers = [
        start(&scorer(&place, kafka, "led"))?,
        start(&scorer(&place, kafka, "led"))?,
    ];
    // A scorer without a learner serves the frozen model, and says what is missing.
    scorers[0].is_ready()?;
    scorers[0].metric_is("ostar_condition{condition=\"state\"}", 1.0)?;
    let first = start(&learner(&place, kafka, "led"))?;
    first.logged("learning from the stream")?;
    let second = start(&learner(&place, kafka, "led"))?;
    second.metric_is("ostar_standby", 1.0)?;
    produce(kafka, "led", &events[..2_000])?;
    first.metric_reaches("ostar_learned_events_total", 2_000.0)?;
    let all = [&scorers[0], &scorers[1], &second];
    let catch_up = |leader: &Daemon| {
        for follower in all {
            for version in ["ostar_model_version_epoch", STEP] {
                until(version, TIMEOUT, || {
                    let (own, theirs) = (follower.metric(version)?, leader.metric(version)?);
                    Ok((own == theirs && own > Some(0.0)).then_some(()))
                })?;
            }
        }
        anyhow::Ok(())
    };
    catch_up(&first)?;
    for follower in &scorers {
        let delays = |le: &str| {
            follower.metric(&format!(
                "ostar_snapshot_delay_seconds_bucket{{le=\"{le}\"}}"
            ))
        };
        // In this order: another one may come between the two looks.
        let (all, fast) = (delays("+Inf")?, delays("2.5")?);
        ensure!(
            all >= Some(1.0) && fast >= all,
            "{fast:?} of {all:?} within 2.5 s"
        );
    }
    for follower in all {
        follower.metric_is("ostar_condition{condition=\"state\"}", 0.0)?;
        let age = follower.metric("ostar_state_age_seconds")?;
        ensure!(age < Some(10.0), "{age:?}");
    }

    // An order to the learner reaches all; one to a follower is refused with a hint.
    let refused = ctl(&scorers[0], &["mode", "frozen"])?;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(
        refused.status.code() == Some(4) && told.contains("learner"),
        "{told}"
    );
    let ordered = ctl(&first, &["mode", "adapted"])?;
    ensure!(ordered.status.success(), "{ordered:?}");
    ensure!(ctl(&first, &["pause"])?.status.success());
    for follower in all {
        follower.metric_is("ostar_serving_mode{mode=\"adapted\"}", 1.0)?;
        follower.metric_is("ostar_paused", 1.0)?;
    }

    // The standby takes over within the session timeout and some seconds, with the orders in force.
    first.kill()?;
    let killed = Instant::now();
    second.logged("learning from the stream")?;
    let took = killed.elapsed();
    ensure!(took < Duration::from_secs(8), "takeover took {took:?}");
    second.metric_is("ostar_serving_mode{mode=\"adapted\"}", 1.0)?;
    second.metric_is("ostar_paused", 1.0)?;
    ensure!(ctl(&second, &["resume"])?.status.success());
    produce(kafka, "led", &events[2_000..])?;
    state::reaches(kafka, "led-state", 4_000)?;
    until("the new epoch", TIMEOUT, || {
        let epochs = scorers
            .iter()
            .map(|scorer| scorer.metric("ostar_model_version_epoch"));
        let epochs = epochs.collect::<Result<Vec<_>>>()?;
        Ok(epochs.iter().all(|epoch| *epoch == Some(2.0)).then_some(()))
    })?;
    // Without any learner predictions go on, and the followers tell.
    second.kill()?;
    for follower in &scorers {
        follower.metric_is("ostar_condition{condition=\"state\"}", 1.0)?;
        ensure!(follower.get("/readyz")?.0 == 200);
    }
    produce(kafka, "led", &events[..400])?;
    until("predictions without a learner", TIMEOUT, || {
        let counts = predicted(kafka, "led-predictions")?;
        Ok((counts.len() == 4_400).then_some(()))
    })?;
    for daemon in scorers {
        daemon.stop_cleanly()?;
    }
    Ok(())
}

fn sampled(kafka: &Kafka) -> Result<()> {
    let place = Place::new()?;
    topics(kafka, "many")?;
    let bounded = |settings: Settings| settings.with("samples.per_second", "500");
    let teacher = start(&bounded(learner(&place, kafka, "many")))?;
    let scorer = start(&bounded(scorer(&place, kafka, "many")))?;
    scorer.logged("the group has assigned partitions")?;
    let (rows, _) = gaussians::draw(2_000, 0.6, 0.3, 7);
    let events: Vec<_> = rows.iter().map(|row| gaussians::raw(row)).collect();
    // Far more than 500 a second, until the learner has said so and scorers follow.
    let mut sent = 0;
    until("a share below 1", TIMEOUT, || {
        produce(kafka, "many", &events)?;
        sent += events.len();
        let share = scorer.metric("ostar_sample_share")?;
        Ok(share.is_some_and(|share| share < 1.0).then_some(()))
    })
    .with_context(|| format!("the log is {:#?}", teacher.log()))?;
    let before = kafka.end("many-samples")? as usize;
    for _ in 0..10 {
        produce(kafka, "many", &events)?;
        sent += events.len();
    }
    until("every prediction", TIMEOUT, || {
        Ok((kafka.end("many-predictions")? as usize >= sent).then_some(()))
    })?;
    let passed_on = kafka.end("many-samples")? as usize - before;
    ensure!(passed_on < 12_000, "{passed_on} of 20,000 were passed on");
    scorer.stop_cleanly()?;
    teacher.stop_cleanly()
}

/// The events that are compared are of a year long past.
const KEPT_FOR_EVER: [(&str, &str); 1] = [("retention.ms", "-1")];

/// The quick tests have the first seed.
fn backtested_alone(kafka: &Kafka) -> Result<()> {
    for seed in 2..=5 {
        let topic = format!("compared-{seed}");
        kafka.create_topic(&topic, 1, &KEPT_FOR_EVER)?;
        kafka.create_topic(&format!("{topic}-labels"), 1, &KEPT_FOR_EVER)?;
        promises::a_backtest_gives_block_by_block_what_the_daemon_gives(
            kafka, PROGRAM, &topic, seed,
        )
        .with_context(|| format!("seed {seed}"))?;
    }
    Ok(())
}

fn backtested(kafka: &Kafka) -> Result<()> {
    for topic in ["compared", "compared-labels"] {
        kafka.create_topic(topic, 1, &KEPT_FOR_EVER)?;
    }
    kafka.create_topic("compared-parked", 1, &[])?;
    kafka.create_topic("compared-samples", 1, &[])?;
    kafka.create_topic("compared-state", 1, &state::TOPIC)?;
    promises::a_backtest_gives_block_by_block_what_a_scorer_serves(kafka, PROGRAM, "compared", 1)
}
