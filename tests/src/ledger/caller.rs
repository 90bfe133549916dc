//! An honest client that asks for predictions during a round, and somebody who looks at the process.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};

use crate::gaussians;

/// What the daemon's lives tell the others. Each kill and each freeze begins a new generation, and its end another one.
#[derive(Debug, Default)]
pub(crate) struct Disturbances {
    /// Odd while the daemon is killed or frozen. A signal takes its time: a request may be answered after the beginning
    /// was told, and the next one may not.
    generation: AtomicU64,
    process: AtomicU32,
}

/// What the client and the process came to.
#[derive(Debug, Clone, Default)]
pub struct Witness {
    /// Predictions that were answered.
    pub answered: usize,
    /// Requests that failed although the daemon was there all the time.
    pub failed: usize,
    /// The first of them.
    pub first_failure: Option<String>,
    /// Longest answer while nothing was frozen or killed.
    pub slowest: Duration,
    /// Largest resident memory in KiB, number of open files, and number of threads, of any life.
    pub most_memory: u64,
    /// See `most_memory`.
    pub most_files: usize,
    /// See `most_memory`.
    pub most_threads: u64,
    /// How far memory grew in the last life, in KiB: the least when all work was done over the least in the life's second
    /// quarter. `None` if it was too short to tell. The least, because uploads and queues come and go; and when all work
    /// was done, because a daemon that catches up has full queues.
    pub growth: Option<i64>,
    /// How long the last life was.
    pub last_life: Duration,
}

/// The two threads.
pub(super) struct Witnesses {
    began: Instant,
    over: Arc<AtomicBool>,
    caller: JoinHandle<Witness>,
    watcher: JoinHandle<Witness>,
}

/// How the error of a round begins whose daemon leaks.
pub const LEAK: &str = "memory grows";
/// What the process may take, whatever happens.
const MOST_MEMORY: u64 = 512 << 10;
const MOST_THREADS: u64 = 100;
/// What memory may grow by in a long life, in KiB, and how long a life must be to tell.
const MOST_GROWTH: i64 = 5_000;
const LONG_LIFE: Duration = Duration::from_secs(180);
/// How long nothing is to be done at the end of such a life. The allocator returns memory after ten seconds.
const CALM: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(5);

impl Disturbances {
    /// To be called before the daemon is killed or frozen.
    pub(super) fn begin(&self) {
        self.generation.fetch_or(1, Ordering::SeqCst);
    }

    /// To be called when the daemon is there again.
    pub(super) fn end(&self) {
        self.begin();
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn process(&self, id: u32) {
        self.process.store(id, Ordering::SeqCst);
        self.end();
    }
}

impl Witnesses {
    /// `address` is that of the daemon's HTTP listener, the same in each life.
    pub(super) fn start(address: String, model: &str, disturbances: &Arc<Disturbances>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let url = format!("http://{address}/v2/models/{model}/infer");
        let (told, seen) = (Arc::clone(&over), Arc::clone(disturbances));
        let caller = thread::spawn(move || call(&url, &told, &seen));
        let (told, seen) = (Arc::clone(&over), Arc::clone(disturbances));
        let watcher = thread::spawn(move || watch(&told, &seen));
        Self {
            began: Instant::now(),
            over,
            caller,
            watcher,
        }
    }

    /// To be called when all work is done.
    pub(super) fn stop(self) -> Result<Witness> {
        if self.began.elapsed() >= LONG_LIFE {
            thread::sleep(CALM);
        }
        self.over.store(true, Ordering::Relaxed);
        let panicked = |_| anyhow!("a witness panicked");
        let called = self.caller.join().map_err(panicked)?;
        let watched = self.watcher.join().map_err(panicked)?;
        Ok(Witness {
            most_memory: watched.most_memory,
            most_files: watched.most_files,
            most_threads: watched.most_threads,
            growth: watched.growth,
            last_life: watched.last_life,
            ..called
        })
    }
}

impl Witness {
    /// Fails if anything is not as promised.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(self.answered > 0, "nobody was answered");
        ensure!(self.failed == 0, "honest requests failed: {self:?}");
        ensure!(self.most_memory < MOST_MEMORY, "too much memory: {self:?}");
        ensure!(
            self.most_threads < MOST_THREADS,
            "too many threads: {self:?}"
        );
        let is_leaking = self.growth.is_some_and(|growth| growth > MOST_GROWTH);
        ensure!(!is_leaking, "{LEAK}: {self:?}");
        Ok(())
    }
}

/// Asks again and again. A failure counts if the daemon had answered before, and nothing was done to it meanwhile.
fn call(url: &str, over: &AtomicBool, disturbances: &Disturbances) -> Witness {
    let (rows, _) = gaussians::draw(1, 0.5, 0.0, 9);
    let body = serde_json::json!({"inputs": [{
        "name": "features", "datatype": "FP32", "shape": [1, gaussians::WIDTH], "data": rows[0],
    }]})
    .to_string();
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .build()
        .new_agent();
    let mut witness = Witness::default();
    let began = Instant::now();
    let mut up = None;
    while !over.load(Ordering::Relaxed) {
        let before = disturbances.generation.load(Ordering::SeqCst);
        let start = Instant::now();
        let answer = agent.post(url).send(&body);
        let after = disturbances.generation.load(Ordering::SeqCst);
        let undisturbed = before.is_multiple_of(2) && before == after;
        let problem = match answer {
            Ok(answer) if answer.status() == 200 => None,
            Ok(answer) => Some(format!("status {}", answer.status())),
            Err(error) => Some(error.to_string()),
        };
        match problem {
            None => {
                witness.answered += 1;
                if undisturbed && up == Some(before) {
                    witness.slowest = witness.slowest.max(start.elapsed());
                }
                up = undisturbed.then_some(before);
            }
            Some(problem) if undisturbed && up == Some(before) => {
                witness.failed += 1;
                let at = (start - began).as_secs_f64();
                let told = format!("{at:.1} s after the start: {problem}");
                witness.first_failure.get_or_insert(told);
            }
            Some(_) => {}
        }
        thread::sleep(PAUSE);
    }
    witness
}

fn watch(over: &AtomicBool, disturbances: &Disturbances) -> Witness {
    let mut witness = Witness::default();
    let mut life: (u32, Instant, Vec<(Instant, u64)>) = (0, Instant::now(), Vec::new());
    while !over.load(Ordering::Relaxed) {
        thread::sleep(PAUSE * 4);
        let process = disturbances.process.load(Ordering::SeqCst);
        if process != life.0 {
            life = (process, Instant::now(), Vec::new());
        }
        let Some((memory, threads, files)) = look(process) else {
            continue;
        };
        witness.most_memory = witness.most_memory.max(memory);
        witness.most_threads = witness.most_threads.max(threads);
        witness.most_files = witness.most_files.max(files);
        life.2.push((Instant::now(), memory));
    }
    witness.last_life = life.1.elapsed();
    if witness.last_life >= LONG_LIFE {
        witness.growth = growth(&life.2);
    }
    witness
}

/// From the second quarter to the calm at the end. The first quarter fills queues and caches.
fn growth(memory: &[(Instant, u64)]) -> Option<i64> {
    let least = |part: &[(Instant, u64)]| part.iter().map(|(_, memory)| *memory as i64).min();
    let quarter = memory.len() / 4;
    let calm = memory.partition_point(|(at, _)| at.elapsed() > CALM);
    Some(least(&memory[calm..])? - least(&memory[quarter..2 * quarter])?)
}

/// Memory in KiB, threads, open files; `None` if the process has ended.
fn look(process: u32) -> Option<(u64, u64, usize)> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let number = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
    Some((number("VmRSS:")?, number("Threads:")?, files))
}
