//! The reader and the outputs against librdkafka's in-process mock cluster.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};
use rdkafka::{
    ClientConfig,
    mocking::MockCluster,
    producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer},
};

use super::*;
use crate::{
    event::{EventMeta, Offsets, Reject, RejectReason, Rejected},
    proto::Prediction,
    settings::Period,
};

const TIMEOUT: Duration = Duration::from_secs(30);

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster(topic: &str, partitions: i32) -> anyhow::Result<(Cluster, KafkaSettings)> {
    let cluster = MockCluster::new(1)?;
    cluster.create_topic(topic, partitions, 1)?;
    let settings = KafkaSettings {
        brokers: cluster.bootstrap_servers(),
        topic: topic.to_owned(),
        metadata_refresh: Period::from_millis(100),
        ..KafkaSettings::default()
    };
    Ok((cluster, settings))
}

fn produce(settings: &KafkaSettings, partition: i32, count: usize) -> anyhow::Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &settings.brokers);
    let producer: BaseProducer = config.create()?;
    for number in 0..count {
        let payload = number.to_string();
        let record = BaseRecord::<(), str>::to(&settings.topic);
        let record = record.partition(partition).payload(&payload);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    Ok(producer.flush(TIMEOUT)?)
}

fn read(
    reader: &mut Reader,
    records: usize,
    notices: usize,
) -> anyhow::Result<(usize, Vec<Notice>)> {
    let deadline = Instant::now() + TIMEOUT;
    let (mut read, mut told) = (0, Vec::new());
    while read < records || told.len() < notices {
        if Instant::now() > deadline {
            bail!("{read} of {records} records in time, notices {told:?}");
        }
        match reader.poll(Duration::from_millis(50))? {
            Polled::Record(_) => read += 1,
            Polled::Notice(notice) => told.push(notice),
            Polled::Idle => {}
        }
    }
    Ok((read, told))
}

#[test]
fn events_are_read_from_all_partitions_and_commits_read_back() -> anyhow::Result<()> {
    let (_cluster, settings) = cluster("events", 2)?;
    produce(&settings, 0, 30)?;
    produce(&settings, 1, 20)?;
    let connection = Connection::open(&settings, TIMEOUT)?;
    assert_eq!(connection.committed(TIMEOUT)?, Commits::new());
    let committer = connection.committer(None);
    let mut reader = connection.read_from(&Offsets::new(), TIMEOUT)?;
    assert_eq!(read(&mut reader, 50, 0)?, (50, vec![]));
    committer.commit_and_wait(&reader.offsets())?;
    drop((reader, committer));

    let connection = Connection::open(&settings, TIMEOUT)?;
    let committed = connection.committed(TIMEOUT)?;
    let commit = |offset| Commit {
        offset,
        metadata: String::new(),
    };
    assert_eq!(committed, Commits::from([(0, commit(30)), (1, commit(20))]));
    Ok(())
}

#[test]
fn a_commit_that_the_broker_refuses_is_an_error() -> anyhow::Result<()> {
    let (cluster, settings) = cluster("events", 1)?;
    let connection = Connection::open(&settings, TIMEOUT)?;
    let committer = connection.committer(None);
    let refused = rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    cluster.request_errors(rdkafka::types::RDKafkaApiKey::OffsetCommit, &[refused]);
    let offsets = Offsets::from([(0, 5)]);
    assert!(committer.commit_and_wait(&offsets).is_err());
    committer.commit_and_wait(&offsets)?;
    Ok(())
}

#[test]
fn a_broker_that_is_not_ready_yet_is_asked_again_until_the_time_is_over() -> anyhow::Result<()> {
    use rdkafka::types::{RDKafkaApiKey::OffsetFetch, RDKafkaRespErr as Answer};
    let (cluster, settings) = cluster("events", 1)?;
    let survey = Survey::open(&settings, TIMEOUT)?;
    let not_yet = [
        Answer::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
        Answer::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        Answer::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
    ];
    cluster.request_errors(OffsetFetch, &not_yet);
    assert_eq!(survey.connection()?.committed(TIMEOUT)?, Commits::new());
    // Not for ever, and not if the answer is no.
    let never = [Answer::RD_KAFKA_RESP_ERR_NOT_COORDINATOR; 1_000];
    cluster.request_errors(OffsetFetch, &never);
    let short = Duration::from_secs(1);
    let error = survey.connection()?.committed(short).unwrap_err();
    assert!(error.to_string().contains("kafka.group"), "{error}");
    cluster.clear_request_errors(OffsetFetch);
    let refused = Answer::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    cluster.request_errors(OffsetFetch, &[refused]);
    let asked = Instant::now();
    assert!(survey.connection()?.committed(TIMEOUT).is_err());
    assert!(asked.elapsed() < TIMEOUT / 2);
    Ok(())
}

/// Sends a record without a payload.
fn bury(settings: &KafkaSettings, key: &str) -> anyhow::Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &settings.brokers);
    let producer: BaseProducer = config.create()?;
    let record = BaseRecord::<str, [u8]>::to(&settings.topic).partition(0);
    let sent = producer.send(record.key(key));
    sent.map_err(|(error, _)| error)?;
    Ok(producer.flush(TIMEOUT)?)
}

#[test]
fn a_tombstone_is_told_from_an_empty_payload() -> anyhow::Result<()> {
    let (_cluster, settings) = cluster("events", 1)?;
    bury(&settings, "gone")?;
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &settings.brokers)
        .create()?;
    let record = BaseRecord::<str, [u8]>::to("events").key("empty");
    let sent = producer.send(record.payload(&[]));
    sent.map_err(|(error, _)| error)?;
    producer.flush(TIMEOUT)?;
    let mut reader = Connection::open(&settings, TIMEOUT)?.read_from(&Offsets::new(), TIMEOUT)?;
    let mut read = Vec::new();
    let deadline = Instant::now() + TIMEOUT;
    while read.len() < 2 && Instant::now() < deadline {
        if let Polled::Record(record) = reader.poll(Duration::from_millis(50))? {
            read.push(record.payload().map(<[u8]>::to_vec));
        }
    }
    assert_eq!(read, [None, Some(Vec::new())]);
    Ok(())
}

#[test]
fn an_outage_is_told_and_so_is_its_end() -> anyhow::Result<()> {
    let (cluster, settings) = cluster("events", 1)?;
    produce(&settings, 0, 5)?;
    let mut reader = Connection::open(&settings, TIMEOUT)?.read_from(&Offsets::new(), TIMEOUT)?;
    read(&mut reader, 5, 0)?;
    cluster.broker_down(1)?;
    let (_, notices) = read(&mut reader, 0, 1)?;
    ensure!(
        matches!(notices[0], Notice::BrokerDown { .. }),
        "{notices:?}"
    );
    cluster.broker_up(1)?;
    let (_, notices) = read(&mut reader, 0, 1)?;
    assert_eq!(notices, [Notice::BrokerUp]);
    produce(&settings, 0, 5)?;
    read(&mut reader, 5, 0)?;
    assert_eq!(reader.offsets(), Offsets::from([(0, 10)]));
    Ok(())
}

#[test]
fn an_unreachable_broker_is_named_with_the_reason() -> anyhow::Result<()> {
    // Bound and not listened to any more: nobody answers.
    let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let settings = KafkaSettings {
        brokers: address.to_string(),
        topic: "events".to_owned(),
        ..KafkaSettings::default()
    };
    let Err(error) = Connection::open(&settings, Duration::from_millis(500)) else {
        bail!("nobody is there");
    };
    assert!(error.is_transient());
    let text = error.to_string();
    let start = format!("kafka.brokers \"{address}\" cannot be reached: ");
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
    Ok(())
}

#[test]
fn a_secret_that_cannot_be_read_is_named() {
    let mut settings = KafkaSettings::default();
    let secret = ("sasl.password".to_owned(), "/no/such/file".into());
    settings.options_from_files.extend([secret]);
    let error = Connection::open(&settings, TIMEOUT).err().unwrap();
    assert!(!error.is_transient());
    let expected = "kafka.options_from_files.sasl.password: cannot read /no/such/file: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn records_that_find_the_queue_full_wait_for_room_and_all_arrive() -> anyhow::Result<()> {
    const RECORDS: usize = 200;
    let (_cluster, mut settings) = cluster("events", 1)?;
    let options = &mut settings.options.0;
    options.insert("queue.buffering.max.messages".to_owned(), "10".into());
    let mut sender = Sender::open(&settings)?;
    for number in 0..RECORDS {
        let payload = number.to_string();
        sender.hand_over(&settings.topic, "key", payload.as_bytes(), None)?;
    }
    sender.flush(TIMEOUT)?;
    let connection = Connection::open(&settings, TIMEOUT)?;
    let mut reader = connection.read_from(&Offsets::new(), TIMEOUT)?;
    let (read, _) = read(&mut reader, RECORDS, 0)?;
    ensure!(read == RECORDS, "{read} of {RECORDS} records arrived");
    Ok(())
}

#[test]
fn predictions_are_flushed_to_their_topic() -> anyhow::Result<()> {
    let (cluster, settings) = cluster("events", 1)?;
    cluster.create_topic("predictions", 1, 1)?;
    let predictions = PredictionSettings {
        topic: Some("predictions".to_owned()),
        format: PredictionFormat::Protobuf,
    };
    let mut outputs = open(&settings, &predictions, &DeadLetterSettings::default())?;
    assert!(outputs.takes_predictions());
    let prediction = Prediction::default();
    for offset in 0..1_000 {
        outputs.send_prediction(&event(offset), &prediction)?;
    }
    outputs.flush(TIMEOUT)?;

    let settings = KafkaSettings {
        topic: "predictions".to_owned(),
        ..settings
    };
    let mut reader = Connection::open(&settings, TIMEOUT)?.read_from(&Offsets::new(), TIMEOUT)?;
    read(&mut reader, 1_000, 0)?;
    Ok(())
}

#[test]
fn dead_letters_are_lines_of_a_file_and_cut_to_size() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("dead.jsonl");
    let settings = KafkaSettings {
        topic: "events".to_owned(),
        ..KafkaSettings::default()
    };
    let dead_letters = DeadLetterSettings {
        file: Some(path.clone()),
        max_bytes: 3,
        ..DeadLetterSettings::default()
    };
    let mut outputs = open(&settings, &PredictionSettings::default(), &dead_letters)?;
    // Without a topic a prediction goes nowhere, and no broker is asked for.
    outputs.send_prediction(&event(0), &Prediction::default())?;
    for offset in 0..2 {
        outputs.send_dead_letter(&Rejected {
            reject: Reject::new(RejectReason::Malformed, "no object"),
            partition: 1,
            offset,
            key: Some(b"a long key".to_vec()),
            key_size: 10,
            payload: b"hello".to_vec(),
            size: 5,
        })?;
    }
    outputs.flush(TIMEOUT)?;
    let text = fs::read_to_string(path)?;
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    assert_eq!(lines.len(), 2);
    let expected = serde_json::json!({
        "topic": "events", "partition": 1, "offset": 1, "reason": "malformed", "detail": "no object",
        "size": 5, "key": "YSBs", "key_size": 10, "payload": "aGVs",
    });
    assert_eq!(lines[1], expected);
    Ok(())
}

fn open(
    settings: &KafkaSettings,
    predictions: &PredictionSettings,
    dead_letters: &DeadLetterSettings,
) -> anyhow::Result<Outputs> {
    let (parked, outputs) = (ParkedSettings::default(), OutputSettings::default());
    Ok(Outputs::open(
        settings,
        predictions,
        dead_letters,
        &parked,
        &outputs,
        None,
    )?)
}

fn event(offset: i64) -> EventMeta {
    EventMeta {
        id: None,
        time_ms: 0,
        recorded_ms: 0,
        partition: 0,
        offset,
    }
}
