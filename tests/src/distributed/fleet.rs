//! The processes of a round: killed, started again, stopped and continued.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use crate::{
    daemon::{Daemon, Settings, TIMEOUT},
    until,
};

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Scorer,
    Learner,
}

/// All processes, which are started again whenever they end: an orchestrator.
pub(super) struct Fleet {
    program: String,
    settings: Settings,
    members: Vec<(Role, Daemon)>,
    kills: usize,
    scorer_kills: usize,
    fenced: usize,
    /// Assignments that processes which have ended had lost.
    lost: Cell<usize>,
}

/// Exit code of a learner that another one has taken over from.
const FENCED: i32 = 5;

impl Fleet {
    pub(super) fn new(program: &str, settings: Settings) -> Self {
        Self {
            program: program.to_owned(),
            settings,
            members: Vec::new(),
            kills: 0,
            scorer_kills: 0,
            fenced: 0,
            lost: Cell::new(0),
        }
    }

    pub(super) fn start(&mut self, role: Role, count: usize) -> Result<()> {
        for _ in 0..count {
            let daemon = self.launch(role)?;
            self.members.push((role, daemon));
        }
        Ok(())
    }

    fn launch(&self, role: Role) -> Result<Daemon> {
        let settings = match role {
            Role::Scorer => scorer(&self.settings),
            Role::Learner => learner(&self.settings),
        };
        Daemon::start(&self.program, &settings)
    }

    /// Starts what has ended again. Only a fenced learner may end by itself.
    pub(super) fn tend(&mut self) -> Result<()> {
        for at in 0..self.members.len() {
            let (role, daemon) = &mut self.members[at];
            if daemon.is_running()? {
                continue;
            }
            let (role, status) = (*role, daemon.wait()?);
            let is_fenced = role == Role::Learner && status.code() == Some(FENCED);
            ensure!(
                is_fenced,
                "a {role:?} ended with {status}: {:#?}",
                daemon.log()
            );
            self.fenced += 1;
            self.members[at].1 = self.launch(role)?;
        }
        Ok(())
    }

    /// Kills the `at`-th process of a role and starts it again.
    pub(super) fn kill(&mut self, role: Role, at: usize) -> Result<()> {
        let member = self.position(role, at)?;
        let started = self.launch(role)?;
        let (_, killed) = std::mem::replace(&mut self.members[member], (role, started));
        self.note(&killed);
        killed.kill()?;
        self.kills += 1;
        self.scorer_kills += usize::from(role == Role::Scorer);
        Ok(())
    }

    /// A further scorer comes, and goes again.
    pub(super) fn join_and_leave(&self) -> Result<()> {
        let daemon = self.launch(Role::Scorer)?;
        daemon.logged("the group has assigned partitions")?;
        self.note(&daemon);
        daemon.stop_cleanly()
    }

    /// Keeps what the log of a process tells before it ends.
    fn note(&self, daemon: &Daemon) {
        self.lost.set(self.lost.get() + lost_of(daemon));
    }

    /// Assignments that were lost so far.
    pub(super) fn lost(&self) -> usize {
        let running = self.members.iter().map(|(_, daemon)| lost_of(daemon));
        self.lost.get() + running.sum::<usize>()
    }

    pub(super) fn scorer_kills(&self) -> usize {
        self.scorer_kills
    }

    /// Stops the learner that learns for longer than its session, waits until another one learns, and continues it. Returns
    /// how long that took.
    pub(super) fn freeze_learner(&mut self, session: Duration) -> Result<Duration> {
        let leader = until("a learner that learns", TIMEOUT, || {
            self.tend()?;
            for at in 0..2 {
                let member = self.position(Role::Learner, at)?;
                let learns = self.members[member].1.metric("ostar_standby");
                if matches!(learns, Ok(Some(0.0))) {
                    return Ok(Some(member));
                }
            }
            Ok(None)
        })?;
        self.members[leader].1.freeze()?;
        let frozen = Instant::now();
        let other = (0..2)
            .map(|at| self.position(Role::Learner, at))
            .find(|member| member.as_ref().is_ok_and(|member| *member != leader))
            .context("no standby")??;
        self.members[other].1.metric_is("ostar_standby", 0.0)?;
        let took = frozen.elapsed();
        thread::sleep(session.saturating_sub(took));
        self.members[leader].1.thaw()?;
        Ok(took)
    }

    fn position(&self, role: Role, at: usize) -> Result<usize> {
        let members = self.members.iter().enumerate();
        let mut own = members.filter(|(_, member)| member.0 == role);
        let (position, _) = own.nth(at).context("no such process")?;
        Ok(position)
    }

    pub(super) fn kills(&self) -> usize {
        self.kills
    }

    pub(super) fn fenced(&self) -> usize {
        self.fenced
    }

    /// Stops everything as an orchestrator would.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.tend()?;
        for (_, daemon) in std::mem::take(&mut self.members) {
            daemon.stop_cleanly()?;
        }
        Ok(())
    }
}

/// How often a process has told that others had its partitions already.
fn lost_of(daemon: &Daemon) -> usize {
    let log = daemon.log();
    let is_lost = |entry: &&serde_json::Value| {
        entry["message"] == "the group takes partitions back" && entry["lost"] == true
    };
    log.iter().filter(is_lost).count()
}

/// The settings of a scorer.
pub fn scorer(settings: &Settings) -> Settings {
    let settings = settings.clone();
    settings
        .with("role", "scorer")
        .with("predictions.topic", "predictions")
        .with("dead_letters.topic", "letters")
        .with("parked.topic", "parked")
        .with("kafka.options.session.timeout.ms", "3000")
        .with("kafka.options.heartbeat.interval.ms", "500")
}

/// The settings of a learner.
pub fn learner(settings: &Settings) -> Settings {
    let settings = settings.clone();
    settings
        .with("role", "learner")
        .with("checkpoints.store", "kafka")
}
