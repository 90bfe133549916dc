//! The documentation lists what a scrape shows, and a scrape shows what the documentation lists.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ostar_connectors::{
    event::RejectReason,
    kafka::{Output, OutputCounts},
};
use ostar_method::{
    alarms::FieldStatus,
    diagnostics::{Decision, Reason},
    gate::GateReason,
    learner::{JoinCounts, LabelRequest, RequestKind, SentClasses},
    profile::{FieldReport, Trouble},
};
use tonic::Code;

use super::*;
use crate::{
    proto::PartitionLag,
    serving::fixture::{self, Learned, TestDaemon},
    state::describe,
    status::Status,
    words,
};

/// A daemon's metrics with its state.
fn rendered(daemon: &TestDaemon) -> String {
    let state = describe(&daemon.services, &daemon.status.borrow(), true);
    daemon.services.metrics.render(&state).unwrap()
}

/// The state of a daemon that has learned.
fn state(learn: fn(&ostar_bundle::Bundle) -> Learned) -> State {
    let daemon = fixture::daemon_after(learn);
    describe(&daemon.services, &daemon.status.borrow(), true)
}

/// Type and label names, by name.
type Listing = BTreeMap<String, (String, BTreeSet<String>)>;

/// Metrics to which everything has happened.
fn observed() -> Vec<MetricFamily> {
    let daemon = fixture::daemon();
    let metrics = &daemon.services.metrics;
    let learned = fixture::learned(&fixture::bundle());

    metrics.ingest.accepted(3);
    metrics.ingest.rejected("malformed");
    metrics.ingest.tombstone("events");
    metrics.ingest.set_lag(PartitionLag {
        partition: 0,
        records: 5,
        seconds: Some(2.0),
    });
    metrics.ingest.offsets_lost.inc_by(4);
    metrics.ingest.consumer_errors("BrokerTransportFailure", 1);
    metrics.ingest.set_waiting("learner", 2);
    metrics.ingest.set_broker_connected(true);
    metrics.ingest.set_consumption_stopped(false);
    metrics.ingest.delay.observe(0.03);

    let duration = Duration::from_millis(1);
    metrics
        .scoring
        .observe(ScoringPath::Stream, [0, 1, 1], 2, duration);
    let counts = OutputCounts {
        delivered: 3,
        refused: 1,
        parked: 2,
    };
    metrics.outputs.add(Output::Predictions, counts);
    metrics.outputs.set_in_flight(Output::Predictions, 2);

    metrics.learner.observe_block(&learned.block);
    metrics.learner.observe_step(duration);
    metrics.learner.skipped_steps.inc();
    let mut refused = learned.refresh.clone();
    let name = "critic loss".into();
    refused.decision = Decision::Refuse(Reason::NonFinite { name });
    refused.restored = true;
    metrics.learner.observe_refresh(&refused);

    metrics.checkpoints.set_every_events(100);
    metrics.checkpoints.written(duration, 1000);
    metrics.checkpoints.unsaved.add(3);
    metrics.checkpoints.failures.inc();
    metrics.labels.requested(&[request()]);
    metrics.labels.rejected();
    let counts = JoinCounts::default();
    let sent = SentClasses {
        compared: 2,
        otherwise: 1,
    };
    metrics.labels.observe_block(&counts, &counts, sent);

    metrics.serving.start(Method::Predict).finish(Code::Ok);
    metrics.serving.rows.inc_by(2);
    metrics.serving.queue.set(1);
    metrics.serving.refused(RefusalReason::QueueFull);
    metrics.serving.unauthenticated(Listener::Http);
    metrics.serving.set_connections(Listener::Grpc, 1);
    metrics.serving.cut_connection(CutReason::Header);
    metrics.serving.cut_request(RequestCut::GaveWay);
    metrics.serving.set_request_bytes(1, 2);
    metrics.serving.set_certificate_expiry(1);
    daemon.status.send_modify(|status| {
        status.state_written_at_ms = Some(1);
        status.snapshot_at_ms = Some(1);
        status.sample_share = Some(0.5);
        status.shares_by_labels = Some(fixture::shares_by_labels());
        let block = status.block.as_mut().unwrap();
        block.alarms.inputs = broken_fields();
        block.labels.as_mut().unwrap().measured.window = Some(fixture::measured(2));
    });
    let state = describe(&daemon.services, &daemon.status.borrow(), true);
    metrics.gather(&state)
}

/// A number and a category beside training.
fn broken_fields() -> Vec<FieldStatus> {
    let field = |name: &str, unknown, beyond| FieldStatus {
        report: FieldReport {
            name: name.to_owned(),
            missing: 0.5,
            training_missing: 0.0,
            unknown,
            beyond,
            distance: 0.5,
            noise_floor: 0.1,
            trouble: Some(Trouble::Missing),
            factor: None,
        },
        statistic: 3.0,
        limit: 11.0,
        broken: true,
        since_block: Some(3),
    };
    vec![
        field("price", None, Some(0.1)),
        field("country", Some(0.2), None),
    ]
}

fn scraped(families: &[MetricFamily]) -> Listing {
    let mut listing = Listing::new();
    for family in families {
        let metrics = family.get_metric().iter();
        let labels = metrics.flat_map(|metric| metric.get_label());
        let labels = labels.map(|label| label.name().to_owned()).collect();
        let kind = format!("{:?}", family.get_field_type()).to_lowercase();
        listing.insert(family.name().to_owned(), (kind, labels));
    }
    listing
}

fn request() -> LabelRequest {
    LabelRequest {
        id: "mail-1".into(),
        kind: RequestKind::Disagreement,
        block: 1,
        time_ms: 0,
        predicted: [0, 1, 1],
    }
}

/// Rows `| name | type | labels | meaning |`.
fn documented() -> Listing {
    let text = include_str!("../../../docs/METRICS.md");
    let mut listing = Listing::new();
    for line in text.lines().filter(|line| line.starts_with("| `ostar_")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`');
        let labels = cells[3].split(',');
        let labels = labels.map(|label| label.trim().trim_matches('`'));
        let labels = labels.filter(|label| !label.is_empty());
        let entry = (cells[2].to_owned(), labels.map(str::to_owned).collect());
        let earlier = listing.insert(name.to_owned(), entry);
        assert!(earlier.is_none(), "{name} is listed twice");
        assert!(!cells[4].is_empty(), "{name} has no meaning");
    }
    listing
}

#[test]
fn the_documentation_and_a_scrape_list_the_same_metrics() {
    let (scraped, documented) = (scraped(&observed()), documented());
    for (name, shown) in &scraped {
        assert_eq!(
            Some(shown),
            documented.get(name),
            "{name} in docs/METRICS.md"
        );
    }
    for name in documented.keys() {
        assert!(
            scraped.contains_key(name),
            "{name} is documented, but never shown"
        );
    }
}

#[test]
fn every_metric_has_the_prefix_a_help_text_and_a_name_that_fits_its_type() {
    for family in observed() {
        let name = family.name();
        assert!(name.starts_with("ostar_"), "{name}");
        assert!(family.help().ends_with('.'), "{name}");
        let counter = family.get_field_type() == prometheus::proto::MetricType::COUNTER;
        assert_eq!(counter, name.ends_with("_total"), "{name}");
    }
}

#[test]
fn what_was_never_measured_is_not_shown() {
    let daemon = fixture::daemon();
    daemon.status.send_replace(Status::default());
    let text = rendered(&daemon);
    assert!(!text.contains("ostar_transport_weight"), "{text}");
    assert!(
        text.contains(r#"ostar_label_proportion{candidate="training",class="spam"} 0.5"#),
        "{text}"
    );
    assert!(text.contains("ostar_steps_total 0"), "counters start at 0");
}

#[test]
fn everything_that_can_be_refused_starts_at_zero() {
    let rejected = RejectReason::ALL.map(RejectReason::as_str);
    let refused = RefusalReason::NAMED.map(|(name, _)| name);
    let cut = CutReason::NAMED.map(|(name, _)| name);
    let cut_requests = RequestCut::NAMED.map(|(name, _)| name);
    let text = rendered(&fixture::daemon());
    for (name, label, values) in [
        ("ostar_events_rejected_total", "reason", &rejected[..]),
        ("ostar_guard_refusals_total", "reason", &Reason::LABELS),
        ("ostar_requests_refused_total", "reason", &refused),
        ("ostar_connections_cut_total", "reason", &cut),
        ("ostar_requests_cut_total", "reason", &cut_requests),
        (
            "ostar_unauthenticated_requests_total",
            "listener",
            &["grpc", "control", "http"],
        ),
    ] {
        for value in values {
            let line = format!("{name}{{{label}=\"{value}\"}} 0");
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}

/// METRICS.md, the runbook and the page name them one by one.
#[test]
fn every_reason_to_refuse_a_state_has_its_words() {
    let runbook = include_str!("../../../docs/runbooks/OstardPublicationRefused.md");
    let metrics = include_str!("../../../docs/METRICS.md");
    let row = metrics
        .lines()
        .find(|l| l.contains("`ostar_guard_refusals_total`"));
    for reason in Reason::LABELS {
        let quoted = format!("`{reason}`");
        assert!(row.unwrap().contains(&quoted), "METRICS.md: {reason}");
        assert!(runbook.contains(&quoted), "the runbook: {reason}");
        assert_ne!(words::refusal(reason), reason, "the page");
    }
}

#[test]
fn the_gates_decision_is_shown_with_its_evidence() {
    let shown = |state: &State| {
        let metrics = fixture::metrics(&fixture::bundle());
        let text = metrics.render(state).unwrap();
        move |name: &str| -> Option<f64> {
            let line = format!("{name} ");
            let line = text.lines().find(|found| found.starts_with(&line));
            line.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        }
    };
    let chosen = |candidate: &str| format!("ostar_gate_candidate{{candidate=\"{candidate}\"}}");
    let reason = |reason: &str| format!("ostar_gate_reason{{reason=\"{reason}\"}}");
    let value = shown(&{
        let daemon = fixture::daemon();
        daemon.status.send_replace(Status::default());
        describe(&daemon.services, &daemon.status.borrow(), true)
    });
    for label in GateReason::LABELS {
        let before = value(&reason(label));
        assert_eq!(before, Some(0.0), "{label} before the first decision");
    }
    assert_eq!(value(&chosen("frozen")), Some(0.0));
    assert_eq!(value(r#"ostar_gate_limit{test="support"}"#), None);
    assert_eq!(value("ostar_proportions_known"), Some(0.0));

    let value = shown(&state(fixture::learned));
    assert_eq!(value(&chosen("prior")), Some(1.0));
    assert_eq!(value(&reason("label_shift_explains")), Some(1.0));
    assert_eq!(value("ostar_label_shift_refuted"), Some(0.0));
    assert_eq!(value("ostar_proportions_known"), Some(1.0));
    for test in ["scores", "latents", "support"] {
        let statistic = value(&format!("ostar_gate_statistic{{test=\"{test}\"}}"));
        let limit = value(&format!("ostar_gate_limit{{test=\"{test}\"}}"));
        assert!(statistic.unwrap() <= limit.unwrap(), "{test}");
    }

    let elsewhere = state(fixture::learned_elsewhere);
    let value = shown(&elsewhere);
    assert_eq!(value(&chosen("prior")), Some(0.0));
    assert_eq!(value(&chosen("frozen")), Some(1.0));
    assert_eq!(value(&reason(&elsewhere.gate.unwrap().reason)), Some(1.0));
    assert_eq!(value(&reason("label_shift_explains")), Some(0.0));
    assert_eq!(value("ostar_label_shift_refuted"), Some(1.0));
    assert_eq!(value("ostar_proportions_known"), Some(0.0));
    assert_eq!(value(r#"ostar_gate_statistic{test="support"}"#), Some(1.0));
    let high = r#"ostar_label_proportion_high{candidate="served",class="spam"}"#;
    assert_eq!(value(high), Some(1.0), "the whole range");
}

#[test]
fn unsaved_events_are_those_learned_since_the_newest_checkpoint() {
    let daemon = fixture::daemon();
    let metrics = &daemon.services.metrics;
    let unsaved = || -> String {
        let text = rendered(&daemon);
        let line = text
            .lines()
            .find(|line| line.starts_with("ostar_unsaved_events"));
        line.unwrap().to_owned()
    };
    metrics.checkpoints.unsaved.add(500);
    metrics.checkpoints.unsaved.add(250);
    metrics.checkpoints.failures.inc();
    assert_eq!(unsaved(), "ostar_unsaved_events 750");
    metrics.checkpoints.written(Duration::from_millis(1), 1000);
    assert_eq!(unsaved(), "ostar_unsaved_events 0");
}

#[test]
fn a_request_whose_client_went_away_counts_as_cancelled() {
    let daemon = fixture::daemon();
    drop(daemon.services.metrics.serving.start(Method::Predict));
    let text = rendered(&daemon);
    let line = r#"ostar_requests_total{code="Cancelled",method="Predict"} 1"#;
    assert!(text.contains(line), "{text}");
}
