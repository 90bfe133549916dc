//! Carries out orders, whatever the process does just then.

use super::Process;
use crate::{
    control::{Order, Request},
    pipeline::{BlockLearner, Pipeline, carry_out},
};

/// Who carries out orders that concern reading and learning.
pub(super) enum Hands<'a> {
    /// Another process learns, or none does yet.
    Nobody,
    /// The learner, which cannot read yet.
    Learner(&'a mut BlockLearner),
    /// The threads.
    Pipeline(&'a Pipeline),
}

impl Process {
    pub(super) fn carry_out(&self, request: Request, hands: &mut Hands<'_>) {
        let outcome = match (request.order, hands) {
            (Order::Mode { .. }, _) if self.following.is_some() => Err(
                "this process follows the learner's mode; give the order to the one that learns"
                    .to_owned(),
            ),
            (Order::Mode { mode }, hands) => {
                let outcome = Ok(self.publisher.set_mode(mode));
                if let Hands::Pipeline(pipeline) = hands {
                    // An order survives a crash. Nobody waits for this checkpoint.
                    let (reply, _) = tokio::sync::oneshot::channel();
                    let order = Order::Checkpoint;
                    pipeline.order(Request { order, reply });
                }
                outcome
            }
            (_, Hands::Nobody) => {
                Err("this process stands by; give the order to the one that learns".to_owned())
            }
            (_, Hands::Learner(learner)) => return carry_out(request, learner, None, false),
            (_, Hands::Pipeline(pipeline)) => return pipeline.order(request),
        };
        // Whoever gave the order may have gone.
        let _ = request.reply.send(outcome);
    }
}
