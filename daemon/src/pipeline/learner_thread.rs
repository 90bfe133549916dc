//! The learner's thread: chunks and orders in, checkpoints out.

use std::{
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
};

use anyhow::Result;
use crossbeam_channel::{Receiver, never, select};
use tracing::{error, info};

use super::{
    WAITING_CHUNKS, checkpoints::Checkpoints, ingest::IngestOrders, learning::Learning,
    scored::ScoredChunk,
};
use crate::{
    config::WhenBehind,
    control::{Order, Request},
};

/// Owns the learner while it runs.
pub(crate) struct LearnerThread {
    pub(crate) learning: Learning,
    pub(crate) checkpoints: Option<Checkpoints>,
    /// Closed to stop: the learner finishes its chunk, writes a checkpoint and ends.
    pub(crate) chunks: Receiver<Arc<ScoredChunk>>,
    pub(crate) orders: Receiver<Request>,
    pub(crate) when_behind: WhenBehind,
    /// How much the thread gives way to serving.
    pub(crate) nice: u8,
    pub(crate) ingest: Arc<IngestOrders>,
}

impl LearnerThread {
    pub(crate) fn run(self) -> Result<()> {
        let Self {
            mut learning,
            mut checkpoints,
            chunks,
            mut orders,
            when_behind,
            nice,
            ingest,
        } = self;
        lower_priority(nice.into());
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
                        match ingest.stop.load(Ordering::Relaxed) {
                            true => ControlFlow::Break(()),
                            false => ControlFlow::Continue(()),
                        }
                    })?,
                    Err(_) => break,
                },
            }
            // What still waits is not in the checkpoint's offsets, and read again at the next start.
            if ingest.stop.load(Ordering::Relaxed) {
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
