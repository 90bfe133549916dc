//! Creates librdkafka's clients: options, secrets and log lines.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use ostar_bundle::{SMALL_FILE, read_text_file};
use rdkafka::{
    ClientConfig, ClientContext, TopicPartitionList,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    consumer::{BaseConsumer, Consumer as _, ConsumerContext, RebalanceProtocol},
    error::{KafkaError as RdKafkaError, KafkaResult, RDKafkaErrorCode},
    message::DeliveryResult,
    producer::ProducerContext,
    types::RDKafkaRespErr,
};
use tracing::{debug, info, warn};

use super::{
    error::{KafkaError, describe},
    options::canonical,
    settings::KafkaSettings,
};
use crate::settings::without_credentials;

pub(super) type Consumer = BaseConsumer<Context>;

/// Forwards librdkafka's log to tracing, and keeps its last error: a request that timed out does not say why.
#[derive(Default)]
pub(super) struct Context {
    last_error: Mutex<Option<String>>,
    /// Rebalances wait in `rebalances` until whoever reads has carried them out. Otherwise they are carried out at once.
    pub(super) defers: AtomicBool,
    rebalances: Mutex<VecDeque<Rebalance>>,
    /// Whether a partition is assigned to this member of its group.
    pub(super) is_assigned: AtomicBool,
}

/// Partitions that a member of a group gets or gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rebalance {
    Assign(Vec<i32>),
    /// `lost`: others may have them already.
    Revoke {
        partitions: Vec<i32>,
        lost: bool,
    },
}

const CONSUMER_DEFAULTS: [(&str, &str); 7] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // librdkafka must not reset offsets by itself: lost events have to be counted.
    ("auto.offset.reset", "error"),
    ("fetch.wait.max.ms", "100"),
    // Twice librdkafka's default: half as many fetches, about 7 % more records a second. From 8 MiB on, malloc maps
    // fresh memory for every fetch, which costs more than it gains.
    ("fetch.message.max.bytes", "2097152"),
    // librdkafka's default of 1 s leaves the queue empty most of the time: 155,000 records a second
    // instead of 380,000.
    ("fetch.queue.backoff.ms", "5"),
    // Events that are fetched ahead. With librdkafka's 100,000 a daemon whose outputs were refused grew by 45 MB while it did
    // not read.
    ("queued.min.messages", "20000"),
];

const MEMBER_DEFAULTS: [(&str, &str); 2] = [
    // A member that is gone is missed after this time. Not shorter: a node under load must not lose its partitions.
    ("session.timeout.ms", "15000"),
    ("heartbeat.interval.ms", "2000"),
];

const SHARED_DEFAULTS: [(&str, &str); 3] = [
    ("client.id", "ostard"),
    // A broker that comes back is found within a second, not ten.
    ("reconnect.backoff.max.ms", "1000"),
    ("topic.metadata.refresh.interval.ms", "10000"),
];

const PRODUCER_DEFAULTS: [(&str, &str); 4] = [
    ("enable.idempotence", "true"),
    ("acks", "all"),
    ("linger.ms", "5"),
    // No time limit: librdkafka retries until the broker takes the message or the process ends.
    ("message.timeout.ms", "0"),
];

/// Options of a consumer. Reads files and environment variables that hold secrets.
pub(super) fn consumer_config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = shared_config(settings)?;
    set_defaults(&mut config, &CONSUMER_DEFAULTS);
    config.set("group.id", settings.group());
    Ok(config)
}

/// [`consumer_config`] of a member of the group. Partitions move one by one, so that others go on meanwhile.
pub(super) fn member_config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = consumer_config(settings)?;
    config.set("partition.assignment.strategy", "cooperative-sticky");
    set_defaults(&mut config, &MEMBER_DEFAULTS);
    Ok(config)
}

/// Options of a producer. Reads files and environment variables that hold secrets.
pub(super) fn producer_config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = shared_config(settings)?;
    set_defaults(&mut config, &PRODUCER_DEFAULTS);
    Ok(config)
}

/// Checks that librdkafka knows the option and accepts the value.
pub(super) fn check_option(name: &str, value: &str) -> Result<(), String> {
    let mut config = ClientConfig::new();
    config.set(canonical(name), value);
    config
        .create_native_config()
        .map(drop)
        .map_err(|error| describe(&error))
}

/// Creates a client; it connects in the background.
pub(super) fn create<C, T>(config: &ClientConfig, context: C) -> Result<T, KafkaError>
where
    C: ClientContext,
    T: FromClientConfigAndContext<C>,
{
    config
        .create_with_context(context)
        .map_err(|error| KafkaError::Options(describe(&error)))
}

fn shared_config(settings: &KafkaSettings) -> Result<ClientConfig, KafkaError> {
    let mut config = ClientConfig::new();
    // tracing filters later. librdkafka's debug lines also need its option `debug`.
    config.set_log_level(RDKafkaLogLevel::Info);
    config.set("bootstrap.servers", &settings.brokers);
    for (option, value) in &settings.options.0 {
        config.set(canonical(option), value);
    }
    for (option, path) in &settings.options_from_files {
        let text = read_text_file(path, SMALL_FILE).map_err(|problem| KafkaError::Secret {
            section: "options_from_files",
            option: option.clone(),
            place: path.display().to_string(),
            problem: problem.to_string(),
        })?;
        // Editors and `echo` add a newline that is not part of the secret.
        config.set(canonical(option), text.trim_end_matches(['\r', '\n']));
    }
    for (option, variable) in &settings.options_from_environment {
        let value = std::env::var(variable).map_err(|problem| KafkaError::Secret {
            section: "options_from_environment",
            option: option.clone(),
            place: format!("environment variable {variable}"),
            problem: problem.to_string(),
        })?;
        config.set(canonical(option), value);
    }
    set_defaults(&mut config, &SHARED_DEFAULTS);
    Ok(config)
}

fn set_defaults(config: &mut ClientConfig, defaults: &[(&str, &str)]) {
    for (option, value) in defaults {
        if config.get(option).is_none() {
            config.set(*option, *value);
        }
    }
}

// === impl Context ===

impl Context {
    /// Why a request failed: librdkafka's last error, which is more specific, or else the request's own.
    pub(super) fn explain(&self, error: &RdKafkaError) -> String {
        self.take_last_error().unwrap_or_else(|| describe(error))
    }

    /// The oldest rebalance that is not carried out yet.
    pub(super) fn next_rebalance(&self) -> Option<Rebalance> {
        let waiting = self.rebalances.lock();
        waiting.unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    pub(super) fn take_last_error(&self) -> Option<String> {
        let last = self.last_error.lock();
        last.unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: RdKafkaError, reason: &str) {
        // It names the broker as it was configured.
        let reason = without_credentials(reason);
        debug!(target: "librdkafka", error = %describe(&error), %reason);
        let mut last = self
            .last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // "All brokers are down" must not replace the reason why one of them is.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) || last.is_none() {
            *last = Some(reason.into_owned());
        }
    }
}

impl ConsumerContext for Context {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let is_assignment = kind == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        self.is_assigned.store(is_assignment, Ordering::Release);
        if self.defers.load(Ordering::Acquire) {
            let elements = list.elements();
            let partitions = elements.iter().map(|element| element.partition()).collect();
            let rebalance = if is_assignment {
                Rebalance::Assign(partitions)
            } else {
                let lost = consumer.assignment_lost();
                Rebalance::Revoke { partitions, lost }
            };
            let waiting = self.rebalances.lock();
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            return waiting.push_back(rebalance);
        }
        let is_cooperative = matches!(
            consumer.rebalance_protocol(),
            RebalanceProtocol::Cooperative
        );
        let outcome = match (is_assignment, is_cooperative) {
            (true, true) => consumer.incremental_assign(list),
            (true, false) => consumer.assign(list),
            (false, true) => consumer.incremental_unassign(list),
            (false, false) => consumer.unassign(),
        };
        if let Err(error) = outcome {
            warn!(error = %describe(&error), "could not carry out a rebalance");
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _offsets: &TopicPartitionList) {
        if let Err(error) = result {
            warn!(error = %describe(&error), "could not commit offsets, the next commit includes them");
        }
    }
}

/// Of transactional producers, whose delivery reports are those of their transactions.
impl ProducerContext for Context {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

/// Logs errors as warnings, because librdkafka recovers from most of them by itself.
pub(super) fn log_line(level: RDKafkaLogLevel, facility: &str, message: &str) {
    let message = without_credentials(message);
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => warn!(target: "librdkafka", facility, "{message}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            info!(target: "librdkafka", facility, "{message}");
        }
        RDKafkaLogLevel::Debug => debug!(target: "librdkafka", facility, "{message}"),
    }
}
