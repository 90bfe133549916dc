//! SIGTERM while requests and streams are under way.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use ostar_connectors::proto::{Input, Vector, input::Kind};
use ostar_tests::{
    daemon::{Daemon, TIMEOUT, listens_for_signals},
    gaussians,
    kafka::Kafka,
    until,
};
use ostard::proto::{PredictRequest, PredictResponse, inference_client::InferenceClient};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, transport::Channel};

use ostar_harness::Place;

use crate::{Alone, PROGRAM, start};

pub(crate) const TESTS: &[(&str, Alone)] = &[
    (
        "sigterm_under_load_ends_in_time_and_leaves_no_accepted_request_unanswered",
        sigterm_under_load,
    ),
    (
        "a_stop_is_noticed_while_a_model_is_loaded",
        sigterm_while_loading,
    ),
];

const CONNECTIONS: usize = 4;
/// Callers per connection, each with one request under way at any time.
const CALLERS: usize = 8;
/// Open streams per connection.
const STREAMS: usize = 2;
const EVENTS: usize = 5_000;
const DEADLINE: Duration = Duration::from_secs(15);

/// Every call ends with an answer, or with a status that says that the daemon has not accepted it. Every stream ends with
/// the daemon's own status. Anything else fails the test: a call that does not end, or a connection that breaks while a
/// request is under way.
fn sigterm_under_load(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    kafka.create_topic("loaded", 1, &[])?;
    let (rows, _) = gaussians::draw(EVENTS, 0.6, 0.3, 19);
    kafka.produce("loaded", 0, rows.iter().map(|row| gaussians::raw(row)))?;
    let settings = place
        .settings(kafka, "loaded", "state")
        .with("shutdown.deadline", &format!("{}s", DEADLINE.as_secs()))
        // On a busy machine requests may queue for long; this test is not about overload.
        .with("requests.max_wait", "10s");
    let mut daemon = start(&settings)?;
    daemon.logged("learning from the stream")?;
    let address = format!("http://{}", daemon.address("grpc_address")?);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let answered = Arc::new(AtomicUsize::new(0));
    let mut clients = runtime.block_on(start_clients(&address, &answered))?;
    let enough = 10 * CONNECTIONS * (CALLERS + STREAMS);
    until("load", TIMEOUT, || {
        Ok((answered.load(Ordering::Relaxed) >= enough).then_some(()))
    })?;
    let before = answered.load(Ordering::Relaxed);
    ends_in_time(&mut daemon)?;
    runtime.block_on(async {
        while let Some(end) = clients.join_next().await {
            end.context("a client panicked")?
                .with_context(|| format!("log of the daemon: {:#?}", daemon.log()))?;
        }
        anyhow::Ok(())
    })?;
    ensure!(
        answered.load(Ordering::Relaxed) > before,
        "no request was answered after SIGTERM: there was no load"
    );
    Ok(())
}

fn sigterm_while_loading(kafka: &mut Kafka) -> Result<()> {
    let place = Place::new()?;
    let settings = place.settings(kafka, "loading", "state");
    let a_minute = [("FAILPOINTS", "loading=sleep(60000)")];
    let mut daemon = Daemon::start_with(PROGRAM, &settings, &a_minute)?;
    listens_for_signals(daemon.id())?;
    ends_in_time(&mut daemon)
}

/// SIGTERM ends the process before the deadline, with exit code 0.
fn ends_in_time(daemon: &mut Daemon) -> Result<()> {
    let terminated = Instant::now();
    daemon.terminate()?;
    let status = daemon.wait()?;
    let took = terminated.elapsed();
    ensure!(status.success(), "{status}: {:#?}", daemon.log());
    ensure!(took < DEADLINE, "stopping took {took:?}");
    Ok(())
}

async fn start_clients(address: &str, answered: &Arc<AtomicUsize>) -> Result<JoinSet<Result<()>>> {
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let channel = Channel::from_shared(address.to_owned())?.connect().await?;
        let client = InferenceClient::new(channel);
        for _ in 0..CALLERS {
            clients.spawn(call(client.clone(), Arc::clone(answered)));
        }
        for _ in 0..STREAMS {
            clients.spawn(stream(client.clone(), Arc::clone(answered)));
        }
    }
    Ok(clients)
}

/// Calls until one is not accepted.
async fn call(mut client: InferenceClient<Channel>, answered: Arc<AtomicUsize>) -> Result<()> {
    loop {
        let answer = timeout(TIMEOUT, client.predict(request())).await;
        match answer.context("a call has no end")? {
            Ok(response) => {
                check(response.get_ref())?;
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(status) if was_not_accepted(&status) => return Ok(()),
            Err(status) => bail!("a call was cut off: {status:?}"),
        }
    }
}

/// Sends the next request on a stream after each answer, until the stream ends.
async fn stream(mut client: InferenceClient<Channel>, answered: Arc<AtomicUsize>) -> Result<()> {
    let (requests, sent) = mpsc::channel(1);
    requests.send(request()).await?;
    let answers = client.predict_stream(ReceiverStream::new(sent)).await?;
    let mut answers = answers.into_inner();
    loop {
        let answer = timeout(TIMEOUT, answers.message()).await;
        match answer.context("a stream has no end")? {
            Ok(Some(response)) => {
                check(&response)?;
                answered.fetch_add(1, Ordering::Relaxed);
                // Fails when the stream has ended; the status is read in the next round.
                let _ = requests.send(request()).await;
            }
            Ok(None) => bail!("a stream ended without a status"),
            Err(status) => {
                let told = status.code() == Code::Unavailable
                    && status.message() == "the daemon is stopping";
                ensure!(told, "a stream was cut off: {status:?}");
                return Ok(());
            }
        }
    }
}

/// Whether a request was never accepted: the daemon refused it, there was no connection, or the connection was closing
/// (GOAWAY names the last request that is still answered, and later ones fail with it). A request that is cut off while
/// it is under way has another error.
fn was_not_accepted(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable => true,
        // hyper's text for a connection that closed before the request was sent.
        Code::Cancelled => status.message() == "operation was canceled",
        _ => anyhow::Chain::new(status)
            .filter_map(|cause| cause.downcast_ref::<h2::Error>())
            .any(|cause| {
                cause.is_go_away()
                    && cause.is_remote()
                    && cause.reason() == Some(h2::Reason::NO_ERROR)
            }),
    }
}

fn request() -> PredictRequest {
    let values = vec![0.5; gaussians::WIDTH];
    PredictRequest {
        inputs: vec![Input {
            kind: Some(Kind::Latent(Vector { values })),
        }],
        ..PredictRequest::default()
    }
}

fn check(response: &PredictResponse) -> Result<()> {
    let [prediction] = &response.predictions[..] else {
        bail!("one prediction expected: {response:?}");
    };
    let sum: f32 = prediction.probabilities.iter().sum();
    ensure!((sum - 1.0).abs() < 1e-5, "{prediction:?}");
    Ok(())
}
