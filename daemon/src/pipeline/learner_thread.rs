//! The learner's thread: chunks and orders in, checkpoints out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context, Result};
use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use ostar_connectors::event::Chunk;
use tracing::{error, info};

use super::{checkpoints::Checkpoints, ingest::IngestOrders, learning::Learning};
use crate::{
    config::{LearnerSection, WhenBehind},
    control::{Order, Request},
};

/// Chunks that may wait: enough to ride out a slow refresh, few enough to notice being behind soon.
const WAITING_CHUNKS: usize = 16;

/// The ends that the rest of the process holds.
pub(crate) struct LearnerThread {
    /// Dropped to stop: the learner finishes its chunk, writes a checkpoint and ends.
    pub(crate) chunks: Sender<Arc<Chunk>>,
    pub(crate) orders: Sender<Request>,
    pub(crate) thread: thread::JoinHandle<Result<()>>,
}

/// Starts the thread that owns the learner from now on.
pub(crate) fn start(
    learning: Learning,
    checkpoints: Option<Checkpoints>,
    section: &LearnerSection,
    ingest: Arc<IngestOrders>,
) -> Result<LearnerThread> {
    let (chunks, waiting) = bounded(WAITING_CHUNKS);
    // Orders are rare and made by people.
    let (orders, given) = bounded(4);
    let when_behind = section.when_behind;
    let nice = section.nice;
    let thread = thread::Builder::new()
        .name("learner".into())
        .spawn(move || {
            lower_priority(nice.into());
            run(
                learning,
                checkpoints,
                &waiting,
                given,
                when_behind,
                &ingest.stop,
            )
        });
    Ok(LearnerThread {
        chunks,
        orders,
        thread: thread.context("cannot start the learner's thread")?,
    })
}

fn run(
    mut learning: Learning,
    mut checkpoints: Option<Checkpoints>,
    chunks: &Receiver<Arc<Chunk>>,
    mut orders: Receiver<Request>,
    when_behind: WhenBehind,
    stop: &AtomicBool,
) -> Result<()> {
    let behind = || when_behind == WhenBehind::Skip && chunks.len() > WAITING_CHUNKS / 2;
    loop {
        select! {
            recv(orders) -> order => match order {
                Ok(request) => carry_out(request, &mut learning, checkpoints.as_mut()),
                Err(_) => orders = never(),
            },
            recv(chunks) -> chunk => match chunk {
                Ok(chunk) => learning.take(&chunk, behind, |learning| {
                    // A full disk must not stop learning or serving: the checkpoint before stays.
                    if let Some(checkpoints) = &mut checkpoints
                        && let Err(error) = checkpoints.write_if_due(learning)
                    {
                        error!(error = %format!("{error:#}"), "cannot write a checkpoint");
                    }
                    Ok(())
                })?,
                Err(_) => break,
            },
        }
        // What still waits is not in the checkpoint's offsets, and read again at the next start.
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if let Some(checkpoints) = &mut checkpoints {
        checkpoints.write(&learning)?;
    }
    info!(
        events = learning.progress().events,
        "the learner has stopped"
    );
    Ok(())
}

fn carry_out(request: Request, learning: &mut Learning, checkpoints: Option<&mut Checkpoints>) {
    let outcome = match request.order {
        Order::Pause => {
            learning.set_paused(true);
            Ok("alignment is paused; proportions still follow the stream".to_owned())
        }
        Order::Resume => {
            learning.set_paused(false);
            Ok("alignment goes on".to_owned())
        }
        Order::Checkpoint => match checkpoints {
            None => Err("no checkpoints are kept: checkpoints.folder is not set".to_owned()),
            Some(checkpoints) => match checkpoints.write(learning) {
                Ok(folder) => Ok(format!("wrote {}", folder.display())),
                Err(error) => Err(format!("{error:#}")),
            },
        },
        Order::Rollback => match learning.roll_back() {
            Ok(()) => Ok("went back to the weights that the guard last agreed to".to_owned()),
            Err(error) => Err(format!("{error:#}")),
        },
        Order::SetMode(_) => Err("the learner knows no serving mode".to_owned()),
    };
    // Who gave the order may have gone.
    let _ = request.reply.send(outcome);
}

/// Serving comes first. On Linux a thread has its own nice value, and its helpers inherit it.
fn lower_priority(nice: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        info!(%error, nice, "cannot lower the learner's priority");
    }
}
