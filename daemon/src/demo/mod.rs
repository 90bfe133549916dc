//! `ostard demo`: the whole daemon on a synthetic stream, with nothing installed.
//!
//! librdkafka's mock cluster runs in the process. The daemon itself is the one that `ostard run` starts.

mod answers;
mod bundle;
mod feed;
mod meter;
mod stream;
mod summary;
mod table;

use std::{
    fs::File,
    io::{BufWriter, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use clap::Args;
use ostar_bundle::Bundle;
use ostar_connectors::{event::Encoder, kafka::KafkaSettings, settings::Period};
use ostar_engine::Device;
use rdkafka::mocking::MockCluster;
use tokio::{sync::watch, task::spawn_blocking};

use self::{meter::Meter, summary::Summary, table::Table};
use crate::{
    config::Config,
    current::ServingMode,
    run::{self, Process},
    shutdown::Signals,
    state::learned,
    status::Status,
};

/// The first line that the demo prints.
const WHAT_TO_LOOK_AT: &str = "Open the live page. First nothing moves; then the share of spam trebles, and predictions are \
     corrected without labels; then mails change, correction alone would lose, and ten labels a block open the adapted \
     model.";

const EVENTS_TOPIC: &str = "mails";
const LABELS_TOPIC: &str = "labels";
const REQUESTS_TOPIC: &str = "label-requests";
const PREDICTIONS_TOPIC: &str = "predictions";
const DEAD_LETTERS_TOPIC: &str = "dead-letters";

/// Mails per second.
const RATE: u64 = 500;
/// Mails per block: half the default, so that something happens on the page every half second.
const BLOCK: usize = 250;
/// Labels that are asked for after every block at random, beside those on which candidates disagree.
const RANDOM_REQUESTS: usize = 10;

/// The flags of `ostard demo`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Options {
    /// How long the stream lasts.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Address of the live page. Without it, the default of http.listen, or any free port if that one is taken.
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<SocketAddr>,
    /// Seed of the stream and of the learner.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What is served.
    #[arg(long, value_enum, default_value_t = ServingMode::Auto)]
    mode: ServingMode,
    /// Where the learner works: cpu, candle or cuda:N. `ostard devices` lists what there is.
    #[arg(long, default_value_t = Device::Cpu)]
    device: Device,
    /// Print one JSON object at the end. The table goes to the standard error.
    #[arg(long)]
    json: bool,
}

/// Runs the demo until the stream ends or a signal arrives.
pub(crate) async fn run(options: Options, signals: &mut Signals) -> Result<()> {
    options.device.check().context("cannot use --device")?;
    let table = Table::new(options);
    table.say(WHAT_TO_LOOK_AT);
    table.say("");
    table.say("training a classifier on yesterday's mail ...");
    let training = spawn_blocking(move || bundle::train(options.seed));
    let bundle = tokio::select! {
        // Nothing is held that would have to be given back.
        () = signals.stop() => return Ok(()),
        bundle = training => bundle.context("training panicked")??,
    };
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    bundle.save(&folder.path().join("bundle"))?;
    let cluster = MockCluster::new(1).context("cannot start librdkafka's mock cluster")?;
    for topic in [
        EVENTS_TOPIC,
        LABELS_TOPIC,
        REQUESTS_TOPIC,
        PREDICTIONS_TOPIC,
        DEAD_LETTERS_TOPIC,
    ] {
        cluster.create_topic(topic, 1, 1)?;
    }
    let config = config(options, &cluster.bootstrap_servers(), folder.path());
    let kafka = config.kafka.clone();
    let encoder = encoder(&config, &bundle)?;

    let stopped = Arc::new(AtomicBool::new(false));
    let ended = signals.agreed();
    let mut running = None;
    let attend = |process: &Process| {
        let servers = &process.servers;
        let (http, grpc) = (servers.http_address, servers.grpc_address);
        table.say(&format!("live page  http://{http}/"));
        table.say(&format!("metrics    http://{http}/metrics"));
        table.say(&format!("gRPC       {grpc}"));
        table.say("");
        let plan = plan(options);
        let (sender, current) = (process.publisher.status.clone(), &process.publisher.current);
        let meter = Meter::new(
            &process.config.events,
            &bundle,
            Arc::clone(current),
            plan.mails,
        );
        let feeding = tokio::spawn({
            let (status, stopped) = (sender.subscribe(), Arc::clone(&stopped));
            async move {
                let fed = feed_and_wait(plan, kafka, encoder, meter, status, stopped).await;
                ended.notify_one();
                fed
            }
        });
        let mut summary = Summary::new(plan.mails, BLOCK);
        let watched = sender.clone();
        let description = process.bundle.description().clone();
        let current = Arc::clone(current);
        let watching = tokio::spawn(async move {
            let state = |status: &Status| learned(&description, &current, status);
            table.watch(watched, state, &mut summary).await;
            (table, summary)
        });
        running = Some((sender, feeding, watching));
    };
    let lived = run::run(config, signals, attend).await;
    let Some((status, feeding, watching)) = running else {
        return lived;
    };
    stopped.store(true, Ordering::Relaxed);
    status.send_modify(|status| status.ended = true);
    let (table, summary) = watching.await.context("the demo's table panicked")?;
    lived?;
    let meter = feeding.await.context("the demo's feed panicked")??;
    table.conclude(&summary, &meter);
    Ok(())
}

/// Feeds the stream as soon as the daemon reads it, and waits until the daemon has caught up.
async fn feed_and_wait(
    plan: feed::Plan,
    kafka: KafkaSettings,
    encoder: Encoder,
    meter: Result<Meter>,
    mut status: watch::Receiver<Status>,
    stopped: Arc<AtomicBool>,
) -> Result<Meter> {
    let mut meter = meter?;
    // The daemon reads labels from the end of their topic, so none may be sent before it reads.
    let begun = status.wait_for(|status| status.ended || status.version.epoch > 0);
    if begun.await?.ended {
        return Ok(meter);
    }
    let stop = move || stopped.load(Ordering::Relaxed);
    let meter = spawn_blocking(move || {
        feed::send(plan, &kafka, &encoder, &mut meter, stop)?;
        anyhow::Ok(meter)
    });
    let meter = meter.await??;
    let whole_blocks = plan.mails - plan.mails % BLOCK as u64;
    let caught_up = status.wait_for(|status| status.ended || status.events >= whole_blocks);
    // The demo also ends if the learner cannot keep up.
    let _ = tokio::time::timeout(Duration::from_secs(10), caught_up).await;
    Ok(meter)
}

fn encoder(config: &Config, bundle: &Bundle) -> Result<Encoder> {
    let input = &bundle.description().input;
    Ok(Encoder::new(&config.events, input, bundle.classes())?)
}

fn config(options: Options, brokers: &str, folder: &Path) -> Config {
    let mut config = Config::default();
    config.bundle.path = Some(folder.join("bundle"));
    config.checkpoints.folder = Some(folder.join("checkpoints"));
    config.kafka.brokers = brokers.to_owned();
    config.kafka.topic = EVENTS_TOPIC.to_owned();
    config.predictions.topic = Some(PREDICTIONS_TOPIC.to_owned());
    config.dead_letters.topic = Some(DEAD_LETTERS_TOPIC.to_owned());
    config.labels.topic = Some(LABELS_TOPIC.to_owned());
    config.labels.window = 1_000;
    config.labels.requests.topic = Some(REQUESTS_TOPIC.to_owned());
    // Once mails change, only labels of mails drawn at random tell the share of spam.
    config.labels.requests.random_per_block = RANDOM_REQUESTS;
    // Answers come at once, from the clock that mails have.
    config.labels.settle = Period::from_millis(50);
    config.checkpoints.min_interval = Period::from_secs(5);
    config.serving.mode = options.mode;
    config.learner.block = BLOCK;
    config.learner.device = options.device;
    config.learner.method.seed = options.seed;
    config.grpc.listen = free(config.grpc.listen);
    config.http.listen = options.http.unwrap_or_else(|| free(config.http.listen));
    config
}

/// The address, or any free port if it is taken: the demo must also work beside a running daemon.
fn free(address: SocketAddr) -> SocketAddr {
    match TcpListener::bind(address) {
        Ok(_) => address,
        Err(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

/// Writes the demo's bundle and its labelled stream to a folder, as input for `fit`, `backtest` and `replay`. Returns what
/// was written where.
pub(crate) fn export(options: Options, folder: &Path) -> Result<String> {
    let bundle_folder = folder.join("bundle");
    bundle::train(options.seed)?.save(&bundle_folder)?;
    let path = folder.join("stream.jsonl");
    let problem = || format!("cannot write {}", path.display());
    let file = File::create(&path).with_context(problem)?;
    let mut lines = BufWriter::new(file);
    let plan = plan(options);
    let mut stream = stream::MailStream::new(plan.seed);
    for number in 0..plan.mails {
        let (mail, class) = stream.next(stream::Phase::at(number as f64 / plan.mails as f64));
        let mut line = serde_json::to_value(mail)?;
        line["id"] = feed::id_of(number).into();
        line["label"] = stream::CLASSES[class as usize].into();
        writeln!(lines, "{line}").with_context(problem)?;
    }
    lines.flush().with_context(problem)?;
    let (bundle, stream) = (bundle_folder.display(), path.display());
    Ok(format!(
        "wrote {bundle}: a model that tells {}\nwrote {stream}: {} labelled mails\n\
         next: ostard backtest --bundle {bundle} --data {stream}\n",
        stream::CLASSES.join(" from "),
        plan.mails
    ))
}

fn plan(options: Options) -> feed::Plan {
    feed::Plan {
        seed: options.seed.wrapping_add(1_000),
        mails: options.seconds * RATE,
        rate: RATE,
    }
}
