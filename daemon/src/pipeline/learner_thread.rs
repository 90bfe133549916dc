//! The learner's thread: chunks and orders in, snapshots and checkpoints out.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use anyhow::Result;
use crossbeam_channel::{Receiver, never, select};
use tracing::{error, info};

use super::{
    WAITING_CHUNKS,
    block_learner::{BlockLearner, Pace},
    checkpoints::Checkpoints,
    flags::PipelineFlags,
    scored::ScoredChunk,
};
use crate::{
    class_order::ClassOrder,
    config::WhenBehind,
    control::{Order, Request},
    error_text::one_line,
};

/// How often the thread looks for labels and a due checkpoint while nothing else happens.
const IDLE_CHECK: Duration = Duration::from_millis(200);

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
    pub(crate) class_order: ClassOrder,
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
            class_order,
            flags,
        } = self;
        lower_priority(nice.into());
        // Labels of an earlier run, if the learner has any.
        if let Some(check) = block_learner.learner().check_class_order()? {
            class_order.report(&check);
        }
        let mut superseded = None;
        let pace = || match when_behind {
            WhenBehind::Skip if flags.is_stopping() || chunks.len() > WAITING_CHUNKS / 2 => {
                Pace::Skip
            }
            // What is learned must not depend on when the process stops.
            WhenBehind::Wait if flags.gives_up() => Pace::GiveUp,
            WhenBehind::Skip | WhenBehind::Wait => Pace::Step,
        };
        loop {
            select! {
                recv(orders) -> order => match order {
                    Ok(request) => {
                        let stopped = flags.is_reading_stopped();
                        carry_out(request, &mut block_learner, Some(&mut checkpoints), stopped);
                    }
                    // A closed channel is always ready and would keep the loop busy.
                    Err(_) => orders = never(),
                },
                recv(chunks) -> chunk => match chunk {
                    Ok(chunk) => {
                        let taken = block_learner.take(&chunk, pace, |block_learner| {
                            if let Some(check) = block_learner.new_class_order() {
                                class_order.report(check);
                            }
                            superseded = checkpoints.write_if_due(block_learner).err();
                            if superseded.is_some() || flags.is_stopping() {
                                ControlFlow::Break(())
                            } else {
                                ControlFlow::Continue(())
                            }
                        })?;
                        // As after a kill: the next start learns the block again from the newest checkpoint.
                        if taken.is_break() {
                            info!("learner stopped in the middle of a block; the next start learns it again");
                            return Ok(());
                        }
                    }
                    Err(_) => break,
                },
                // A burst may have ended before the next checkpoint was allowed. And labels are measured even while no
                // events come.
                default(IDLE_CHECK) => superseded = checkpoints.write_if_due(&block_learner).err(),
            }
            block_learner.fill_labels();
            // Two learners in one folder would both be wrong. The newer one has the lock.
            if let Some(error) = superseded {
                return Err(error);
            }
            // Chunks that still wait are not in the checkpoint's offsets: the next start reads them again.
            if flags.is_stopping() {
                break;
            }
        }
        checkpoints.write_last(&block_learner)?;
        info!(events = block_learner.position().events, "learner stopped");
        Ok(())
    }
}

/// Carries out an order. There are no checkpoints while the process still waits for its topic.
pub(crate) fn carry_out(
    request: Request,
    block_learner: &mut BlockLearner,
    checkpoints: Option<&mut Checkpoints>,
    reading_stopped: bool,
) {
    let outcome = match (request.order, checkpoints) {
        (Order::Checkpoint, None) => Err(
            "the topic cannot be read yet; nothing was learned since the newest checkpoint"
                .to_owned(),
        ),
        (Order::Checkpoint, Some(checkpoints)) => match checkpoints.write(block_learner) {
            Ok(place) => Ok(format!("wrote {place}")),
            Err(error) => Err(one_line(&error)),
        },
        (order, checkpoints) => {
            let outcome = carry_out_in_memory(order, block_learner, reading_stopped);
            // Orders are state: they survive a crash, too. If this fails, the next checkpoint has them.
            if outcome.is_ok()
                && let Some(checkpoints) = checkpoints
                && let Err(error) = checkpoints.write(block_learner)
            {
                error!(error = %one_line(&error), "cannot write a checkpoint");
            }
            outcome
        }
    };
    // Whoever gave the order may have gone.
    let _ = request.reply.send(outcome);
}

fn carry_out_in_memory(
    order: Order,
    block_learner: &mut BlockLearner,
    reading_stopped: bool,
) -> Result<String, String> {
    match order {
        Order::Pause => {
            block_learner.set_paused(true);
            Ok("alignment is paused; proportions still follow the stream".to_owned())
        }
        Order::Resume if !block_learner.is_paused() && reading_stopped => Err(
            "alignment is not paused; reading is stopped after too many bad events: `ostard ctl read-on` continues it"
                .to_owned(),
        ),
        Order::Resume => {
            block_learner.set_paused(false);
            let reading = if reading_stopped {
                "; reading stays stopped after too many bad events until `ostard ctl read-on`"
            } else {
                ""
            };
            Ok(format!("alignment is resumed{reading}"))
        }
        Order::Rollback => match block_learner.roll_back() {
            Ok(()) => Ok("restored the last weights that the guard accepted".to_owned()),
            Err(error) => Err(one_line(&error)),
        },
        Order::ReadOn => Err("reading is not stopped".to_owned()),
        Order::Mode { .. } | Order::Checkpoint => {
            Err("the learner does not carry out this order alone".to_owned())
        }
    }
}

/// Lets serving go first. On Linux every thread has its own nice value, which threads that it starts inherit.
fn lower_priority(nice: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, nice) {
        info!(%error, nice, "cannot lower the learner's priority");
    }
}
