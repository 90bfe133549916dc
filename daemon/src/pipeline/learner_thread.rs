//! The learner's thread: chunks and orders in, snapshots and checkpoints out.

use std::{ops::ControlFlow, sync::Arc};

use anyhow::Result;
use crossbeam_channel::{Receiver, never, select};
use tracing::{error, info};

use super::{
    WAITING_CHUNKS, block_learner::BlockLearner, checkpoints::Checkpoints, flags::PipelineFlags,
    scored::ScoredChunk,
};
use crate::{
    config::WhenBehind,
    control::{Order, Request},
};

/// The thread's own state and its ends of the channels.
pub(crate) struct LearnerThread {
    pub(crate) block_learner: BlockLearner,
    pub(crate) checkpoints: Checkpoints,
    /// Closed when emission ends: the learner then writes a checkpoint and ends, too.
    pub(crate) chunks: Receiver<Arc<ScoredChunk>>,
    pub(crate) orders: Receiver<Request>,
    pub(crate) when_behind: WhenBehind,
    /// Nice value of the thread, so that it gives way to serving.
    pub(crate) nice: u8,
    pub(crate) flags: Arc<PipelineFlags>,
}

impl LearnerThread {
    pub(crate) fn run(self) -> Result<()> {
        let Self {
            mut block_learner,
            mut checkpoints,
            chunks,
            mut orders,
            when_behind,
            nice,
            flags,
        } = self;
        lower_priority(nice.into());
        let behind = || when_behind == WhenBehind::Skip && chunks.len() > WAITING_CHUNKS / 2;
        loop {
            select! {
                recv(orders) -> order => match order {
                    Ok(request) => carry_out(request, &mut block_learner, &mut checkpoints),
                    // A closed channel is always ready and would keep the loop busy.
                    Err(_) => orders = never(),
                },
                recv(chunks) -> chunk => match chunk {
                    Ok(chunk) => block_learner.take(&chunk, behind, |block_learner| {
                        // A full disk must not stop learning or serving: the last checkpoint is still there.
                        if let Err(error) = checkpoints.write_if_due(block_learner) {
                            error!(error = %format!("{error:#}"), "cannot write a checkpoint");
                        }
                        if flags.is_stopping() {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    })?,
                    Err(_) => break,
                },
            }
            // Chunks that still wait are not in the checkpoint's offsets: the next start reads them again.
            if flags.is_stopping() {
                break;
            }
        }
        checkpoints.write(&block_learner)?;
        info!(events = block_learner.progress().events, "learner stopped");
        Ok(())
    }
}

fn carry_out(request: Request, block_learner: &mut BlockLearner, checkpoints: &mut Checkpoints) {
    let outcome = match request.order {
        Order::Pause => {
            block_learner.set_paused(true);
            Ok("alignment is paused; proportions still follow the stream".to_owned())
        }
        Order::Resume => {
            block_learner.set_paused(false);
            Ok("alignment is resumed".to_owned())
        }
        Order::Checkpoint => match checkpoints.write(block_learner) {
            Ok(folder) => Ok(format!("wrote {}", folder.display())),
            Err(error) => Err(format!("{error:#}")),
        },
        Order::Rollback => match block_learner.roll_back() {
            Ok(()) => Ok("restored the last weights that the guard accepted".to_owned()),
            Err(error) => Err(format!("{error:#}")),
        },
        Order::SetMode(_) => {
            Err("the learner does not set the serving mode; the process does".to_owned())
        }
    };
    // Whoever gave the order may have gone.
    let _ = request.reply.send(outcome);
}

/// Lets serving go first. On Linux every thread has its own nice value, which threads that it starts inherit.
fn lower_priority(nice: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        info!(%error, nice, "cannot lower the learner's priority");
    }
}
