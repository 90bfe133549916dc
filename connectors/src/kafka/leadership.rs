//! Which of several learners learns: the one that a group gives the state topic's only partition to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use rdkafka::{
    Offset,
    consumer::Consumer as _,
    error::{KafkaError as RdKafkaError, RDKafkaErrorCode},
};

use super::{
    client::{self, Consumer, Context},
    error::{KafkaError, describe, fatal},
    settings::KafkaSettings,
};

/// Membership in the group of learners. Dropping it leaves the group, and the next learner takes over at once. Nothing is
/// read: the assignment itself is the answer.
pub struct Leadership {
    standing: Arc<Standing>,
    /// Closed when the keeper has left the group.
    left: mpsc::Receiver<()>,
}

/// Keeps a [`Leadership`] alive, on a thread of its own.
pub struct LeadershipKeeper {
    consumer: Consumer,
    standing: Arc<Standing>,
    /// Dropped after the consumer, which leaves the group when it is dropped.
    _left: mpsc::Sender<()>,
}

#[derive(Debug, Default)]
struct Standing {
    leads: AtomicBool,
    /// It led, and does not any more.
    has_lost: AtomicBool,
    ends: AtomicBool,
}

/// How often membership is looked at: a part of what a takeover takes.
const POLL: Duration = Duration::from_millis(100);
/// How long leaving the group may take.
const LEAVE: Duration = Duration::from_secs(2);

impl Leadership {
    /// Joins the group. A learner that does not answer for `session` is taken for dead. Nothing happens before the keeper
    /// runs.
    pub fn join(
        settings: &KafkaSettings,
        group: &str,
        state_topic: &str,
        session: Duration,
    ) -> Result<(Self, LeadershipKeeper), KafkaError> {
        let mut config = client::member_config(settings)?;
        let heartbeat = (session / 5).max(Duration::from_millis(100));
        config
            .set("group.id", group)
            .set("session.timeout.ms", session.as_millis().to_string())
            .set("heartbeat.interval.ms", heartbeat.as_millis().to_string())
            .set("auto.offset.reset", "latest");
        let consumer: Consumer = client::create(&config, Context::default())?;
        consumer.subscribe(&[state_topic]).map_err(fatal)?;
        let standing = Arc::new(Standing::default());
        let (has_left, left) = mpsc::channel();
        let keeper = LeadershipKeeper {
            consumer,
            standing: Arc::clone(&standing),
            _left: has_left,
        };
        Ok((Self { standing, left }, keeper))
    }

    /// Whether this process is the one that learns.
    pub fn leads(&self) -> bool {
        self.standing.leads.load(Ordering::Acquire)
    }

    /// Whether it led and another one may lead now. It stays so.
    pub fn has_lost(&self) -> bool {
        self.standing.has_lost.load(Ordering::Acquire)
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.standing.ends.store(true, Ordering::Release);
        // A member that has left is not waited for by the others. Nothing is ever sent: the channel closes.
        let _ = self.left.recv_timeout(LEAVE);
    }
}

impl LeadershipKeeper {
    /// Polls until the [`Leadership`] is dropped. Whatever arrives is of no interest.
    pub fn run(self) -> Result<(), KafkaError> {
        while !self.standing.ends.load(Ordering::Acquire) {
            let polled = self.consumer.poll(POLL);
            if let Some(Err(error)) = polled {
                self.take_error(&error)?;
            }
            self.look();
        }
        Ok(())
    }

    /// Errors that no waiting helps against. librdkafka recovers from the others by itself.
    fn take_error(&self, error: &RdKafkaError) -> Result<(), KafkaError> {
        match (error, error.rdkafka_error_code()) {
            (_, Some(RDKafkaErrorCode::InvalidSessionTimeout)) => {
                let problem = "the broker refuses checkpoints.session_timeout: set it between the broker's \
                               group.min.session.timeout.ms and group.max.session.timeout.ms";
                Err(KafkaError::Fatal(problem.to_owned()))
            }
            (RdKafkaError::MessageConsumptionFatal(code), _) => {
                Err(KafkaError::Fatal(code.to_string()))
            }
            _ => {
                tracing::debug!(error = %describe(error), "librdkafka reported an error of the group of learners");
                Ok(())
            }
        }
    }

    /// Notes who leads now.
    fn look(&self) {
        let (consumer, standing) = (&self.consumer, &self.standing);
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
