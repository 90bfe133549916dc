//! A small model, and the services of a daemon that serves it, for tests.

use std::{net::SocketAddr, sync::Arc};

use ostar_bundle::{
    Bundle,
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_connectors::{
    event::{Decoder, EventSettings},
    proto::{Input, Vector, input::Kind},
    settings::Period,
};
use ostar_engine::{Generator, Inputs, Rows};
use ostar_method::{
    gate::GateState,
    learner::{
        BlockReport, EstimatedAccuracies, LabelUse, Learner, LearnerSettings, Measurement,
        Measures, RefreshReport, SharesByLabels, Snapshot, StepReport,
    },
    proportions::{Interval, ShareByLabels},
};
use tokio::sync::{mpsc, watch};
use tonic::transport::{Channel, Endpoint};

use super::Services;
use crate::{
    clock::now_ms,
    config::{Config, MetricsSettings},
    control::{Controller, Request},
    current::{Current, ServingMode, Version},
    health::Health,
    metrics::Metrics,
    proto::PredictRequest,
    status::Status,
};

/// Numbers of a latent.
pub(crate) const WIDTH: usize = 4;

/// What the served state is called.
pub(crate) const VERSION: Version = Version { epoch: 3, step: 42 };

/// What a learner says after a block and a step.
pub(crate) struct Learned {
    pub(crate) block: BlockReport,
    pub(crate) step: StepReport,
    pub(crate) refresh: RefreshReport,
    pub(crate) snapshot: Snapshot,
    pub(crate) gate: GateState,
    pub(crate) accuracies: EstimatedAccuracies,
    pub(crate) by_labels: Option<SharesByLabels>,
}

/// Services, and the channel ends that the learner and the process hold in a real daemon.
pub(crate) struct TestDaemon {
    pub(crate) services: Services,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) orders: mpsc::Receiver<Request>,
}

/// Two Gaussians, of which the second has `share` of the rows, evenly spread: class after class would be a jump of
/// the shares, which the learner follows.
fn draw(rows: usize, share: f64, seed: u64) -> (Vec<f32>, Vec<u32>) {
    let mut generator = Generator::new(seed);
    let (mut latents, mut labels) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let before = |row: usize| (share * row as f64 + 1e-9).floor();
        let label = u32::from(before(row + 1) > before(row));
        let mean = 2.0 * f64::from(label) - 1.0;
        latents.extend((0..WIDTH).map(|_| (mean + generator.normal()) as f32));
        labels.push(label);
    }
    (latents, labels)
}

/// Tells ham, around -1, from spam, around 1.
pub(crate) fn bundle() -> Bundle {
    let (latents, labels) = draw(1_000, 0.5, 1);
    let classes = ["ham".to_owned(), "spam".to_owned()];
    let labelled = Labelled {
        classes: &classes,
        labels: &labels,
        rows: LabelledRows::Latents(Rows::new(&latents[..], WIDTH).unwrap()),
    };
    let settings = FitSettings {
        name: "mail".into(),
        ..FitSettings::default()
    };
    fit(labelled, &settings, &mut |_| ()).unwrap()
}

/// A learner that has seen a block with few spam, and taken a step.
pub(crate) fn learned(bundle: &Bundle) -> Learned {
    learn(bundle, &draw(500, 0.1, 2).0)
}

/// The same, but every row lies far from all training rows: label shift does not explain the stream.
pub(crate) fn learned_elsewhere(bundle: &Bundle) -> Learned {
    let (latents, _) = draw(500, 0.1, 2);
    let moved: Vec<f32> = latents.iter().map(|value| value + 20.0).collect();
    learn(bundle, &moved)
}

/// The same, and labels of randomly drawn rows tell the shares.
pub(crate) fn learned_with_labels(bundle: &Bundle) -> Learned {
    Learned {
        by_labels: Some(shares_by_labels()),
        ..learned_elsewhere(bundle)
    }
}

/// Nine in ten are spam, by 200 labels.
pub(crate) fn shares_by_labels() -> SharesByLabels {
    let class = |share: f64| {
        let reach = |reach: f64| Interval {
            low: share - reach,
            high: share + reach,
        };
        ShareByLabels {
            share,
            interval: reach(0.03),
            alone: reach(0.04),
            tuning: 0.5,
        }
    };
    SharesByLabels {
        labels: 200,
        rows: 5_000,
        first_block: 2,
        last_block: 11,
        classes: vec![class(0.1), class(0.9)],
    }
}

/// What a label of each class shows of predictions that give every class the same probability.
pub(crate) fn measured(classes: usize) -> Measurement {
    let share = 1.0 / classes as f64;
    let measures = || Measures {
        accuracy: share,
        balanced_accuracy: share,
        log_loss: -share.ln(),
        auc: Some(0.5),
        calibration_ratio: vec![Some(1.0); classes],
    };
    Measurement {
        labels: classes as u64,
        proportions: vec![share; classes],
        by_predictor: std::array::from_fn(|_| measures()),
    }
}

/// With the default settings.
pub(crate) fn metrics(bundle: &Bundle) -> Arc<Metrics> {
    Metrics::new(bundle.description(), &MetricsSettings::default()).unwrap()
}

fn learn(bundle: &Bundle, latents: &[f32]) -> Learned {
    let settings = LearnerSettings {
        batch: 50,
        window: 1000,
        labels: Some(LabelUse::default()),
        ..LearnerSettings::default()
    };
    let mut learner = Learner::new(&bundle.deployed().unwrap(), settings).unwrap();
    let inputs = Inputs::Dense(Rows::new(latents, WIDTH).unwrap());
    let scores = learner.model().scores(inputs).unwrap();
    learner.follow(scores.all(), None).unwrap();
    let block = learner.close(&[], &[]).unwrap();
    let (step, refresh) = learner.step().unwrap();
    Learned {
        block,
        step,
        refresh: refresh.expect("the first step refreshes"),
        snapshot: learner.snapshot(),
        gate: learner.gate().clone(),
        accuracies: learner.estimated_accuracies().unwrap(),
        by_labels: None,
    }
}

/// Services of a daemon that is ready and serves in the mode `frozen`.
pub(crate) fn daemon() -> TestDaemon {
    daemon_after(learned)
}

/// The same, after what `learn` has learned.
pub(crate) fn daemon_after(learn: fn(&Bundle) -> Learned) -> TestDaemon {
    let bundle = bundle();
    let learned = learn(&bundle);
    let description = bundle.description().clone();
    let classes = description.classes.len();
    let decoder = Decoder::new(&EventSettings::default(), &description.input, classes).unwrap();
    let (controller, orders) = Controller::new();
    let (status, receiver) = watch::channel(Status {
        version: VERSION,
        events: 500,
        steps: 1,
        shares_at_ms: Some(now_ms()),
        block: Some(learned.block),
        step: Some(learned.step),
        refresh: Some(learned.refresh),
        gate: learned.gate,
        accuracies: learned.accuracies,
        shares_by_labels: learned.by_labels,
        ..Status::default()
    });
    let health = Health::new();
    health.set_started();
    let services = Services {
        current: Current::new(learned.snapshot, VERSION, ServingMode::Frozen),
        metrics: metrics(&bundle),
        health,
        status: receiver,
        controller,
        description,
        decoder,
        config: Config::default(),
    };
    TestDaemon {
        services,
        status,
        orders,
    }
}

/// Settings with any free ports, for machines that are busy with other tests.
pub(crate) fn settings() -> Config {
    let mut settings = Config::default();
    let free = "127.0.0.1:0".parse().unwrap();
    settings.grpc.listen = free;
    settings.http.listen = free;
    settings.requests.max_wait = Period::from_secs(30);
    settings
}

/// A latent with the same number everywhere: ham below 0, spam above.
pub(crate) fn latent(value: f32) -> Input {
    let values = vec![value; WIDTH];
    Input {
        kind: Some(Kind::Latent(Vector { values })),
    }
}

pub(crate) fn request(values: &[f32]) -> PredictRequest {
    PredictRequest {
        inputs: values.iter().map(|value| latent(*value)).collect(),
        mode: 0,
    }
}

/// A client's connection.
pub(crate) async fn connect(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}
