//! Threads whose failure stops the process.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use tokio::sync::mpsc;
use tracing::{error, info};

use crate::health::Health;

/// How often a thread that is waited for is looked at.
const JOIN_POLL: Duration = Duration::from_millis(5);

/// Named threads. An error or a panic in one makes the process unlive and is sent to whoever holds the receiver.
pub(crate) struct Threads {
    health: Arc<Health>,
    failures: mpsc::UnboundedSender<anyhow::Error>,
    running: Vec<(&'static str, JoinHandle<()>)>,
}

impl Threads {
    /// None yet. The receiver gets at most one failure per thread, so it needs no bound.
    pub(crate) fn new(health: Arc<Health>) -> (Self, mpsc::UnboundedReceiver<anyhow::Error>) {
        let (failures, receiver) = mpsc::unbounded_channel();
        let threads = Self {
            health,
            failures,
            running: Vec::new(),
        };
        (threads, receiver)
    }

    pub(crate) fn start(
        &mut self,
        name: &'static str,
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (health, failures) = (Arc::clone(&self.health), self.failures.clone());
        let watched = move || {
            // What the body owned is dropped with it: nothing half-changed is seen by anyone afterwards.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                fail::fail_point!(name);
                body()
            }));
            let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("panicked")));
            if let Err(failure) = outcome.with_context(|| format!("the {name} thread failed")) {
                error!(error = %format!("{failure:#}"), thread = name, "pipeline thread failed");
                health.fail(format!("{failure:#}"));
                let _ = failures.send(failure);
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(watched);
        let thread = thread.with_context(|| format!("cannot start the {name} thread"))?;
        self.running.push((name, thread));
        Ok(())
    }

    /// Waits for all threads. Polls, because joining a thread knows no deadline.
    pub(crate) fn wait(self, deadline: Instant) -> Result<()> {
        for (name, thread) in self.running {
            while !thread.is_finished() {
                if Instant::now() >= deadline {
                    return Err(anyhow!(
                        "the {name} thread did not finish before the shutdown deadline; raise shutdown.deadline if it \
                         needs more time"
                    ));
                }
                thread::sleep(JOIN_POLL);
            }
            info!(thread = name, "pipeline thread finished");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_thread_that_panics_or_fails_is_the_end_of_the_process_with_its_name() {
        type Body = fn() -> Result<()>;
        let bodies: [(Body, &str); 2] = [
            (
                || panic!("a test's panic"),
                "the reading thread failed: panicked",
            ),
            (|| bail!("no disk"), "the reading thread failed: no disk"),
        ];
        for (body, expected) in bodies {
            let health = Health::new();
            let (mut threads, mut failures) = Threads::new(Arc::clone(&health));
            threads.start("working", || Ok(())).unwrap();
            threads.start("reading", body).unwrap();
            let failure = failures.blocking_recv().unwrap();
            assert_eq!(format!("{failure:#}"), expected);
            assert_eq!(health.liveness(), Err(expected.to_owned()));
            threads
                .wait(Instant::now() + Duration::from_secs(60))
                .unwrap();
        }
    }
}
