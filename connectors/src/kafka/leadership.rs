//! Which of several learners learns: the one that a group gives the state topic's only partition to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rdkafka::{Offset, consumer::Consumer as _};

use super::{
    client::{self, Consumer, Context},
    error::{KafkaError, describe},
    settings::KafkaSettings,
};

/// Membership in the group of learners. A thread keeps it alive; dropping it leaves the group, and the next learner takes
/// over at once. Nothing is read: the assignment itself is the answer.
pub struct Leadership {
    standing: Arc<Standing>,
    /// Joined by drop, so that the group knows that this member has left.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Standing {
    leads: AtomicBool,
    /// It led, and does not any more.
    has_lost: AtomicBool,
    ends: AtomicBool,
    has_failed: AtomicBool,
}

/// How often membership is looked at: a part of what a takeover takes.
const POLL: Duration = Duration::from_millis(100);

impl Leadership {
    /// Joins the group. A learner that does not answer for `session` is taken for dead.
    pub fn join(
        settings: &KafkaSettings,
        group: &str,
        state_topic: &str,
        session: Duration,
    ) -> Result<Self, KafkaError> {
        let mut config = client::member_config(settings)?;
        let heartbeat = (session / 5).max(Duration::from_millis(100));
        config
            .set("group.id", group)
            .set("session.timeout.ms", session.as_millis().to_string())
            .set("heartbeat.interval.ms", heartbeat.as_millis().to_string())
            .set("auto.offset.reset", "latest");
        let consumer: Consumer = client::create(&config, Context::default())?;
        let subscribed = consumer.subscribe(&[state_topic]);
        subscribed.map_err(|error| KafkaError::Fatal(describe(&error)))?;
        let standing = Arc::new(Standing::default());
        let shared = Arc::clone(&standing);
        let thread = thread::Builder::new().name("leadership".to_owned());
        let thread = thread
            .spawn(move || keep(&consumer, &shared))
            .map_err(|error| KafkaError::Fatal(format!("cannot start a thread: {error}")))?;
        Ok(Self {
            standing,
            thread: Some(thread),
        })
    }

    /// Whether this process is the one that learns.
    pub fn leads(&self) -> bool {
        self.standing.leads.load(Ordering::Acquire)
    }

    /// Whether it led and another one may lead now. It stays so.
    pub fn has_lost(&self) -> bool {
        self.standing.has_lost.load(Ordering::Acquire)
    }

    /// Whether the client failed for good.
    pub fn has_failed(&self) -> bool {
        self.standing.has_failed.load(Ordering::Acquire)
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.standing.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told so already.
            let _ = thread.join();
        }
    }
}

/// Polls until the end. Whatever arrives is of no interest.
fn keep(consumer: &Consumer, standing: &Standing) {
    while !standing.ends.load(Ordering::Acquire) {
        let polled = consumer.poll(POLL);
        if let Some(Err(rdkafka::error::KafkaError::MessageConsumptionFatal(code))) = polled {
            tracing::error!(error = %code, "the membership among learners failed");
            standing.has_failed.store(true, Ordering::Release);
            return;
        }
        let leads = consumer.context().is_assigned.load(Ordering::Acquire)
            && consumer.assignment().is_ok_and(|list| list.count() > 0)
            && !consumer.assignment_lost();
        let led = standing.leads.swap(leads, Ordering::AcqRel);
        if led && !leads {
            standing.has_lost.store(true, Ordering::Release);
        }
        if leads && !led {
            pause(consumer);
        }
    }
}

/// Nothing of the partition is fetched.
fn pause(consumer: &Consumer) {
    let Ok(mut list) = consumer.assignment() else {
        return;
    };
    if list.set_all_offsets(Offset::End).is_ok()
        && let Err(error) = consumer.pause(&list)
    {
        tracing::debug!(error = %describe(&error), "could not pause the state topic's partition");
    }
}
