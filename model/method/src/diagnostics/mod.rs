//! What an adaptation shows without labels, as pure functions on row-major latents, and the guard that
//! judges by it whether a state may be served. And what labelled rows show of a deployed model: how good it is, and whether
//! its classes are in the right order.

mod assignment;
mod auc;
mod class_order;
mod decision;
mod guard;
mod hungarian;
mod line;
mod means;
mod movement;
mod noise_floor;
mod projection;
mod quality;
mod refusals;
mod sliced;
mod slope;

pub(crate) use assignment::move_to_clusters;
pub use assignment::{ClusterAssignment, assign_clusters};
pub use auc::Auc;
pub use class_order::{BetterOrder, OrderCheck, check_class_order};
pub use decision::{Decision, Reason};
pub use guard::{GuardEvidence, GuardLimits, MostPredicted, judge};
pub use hungarian::optimal_assignment;
pub use means::{ClassMeans, class_means};
pub use movement::{Displacement, Movement, movement};
pub use noise_floor::effective_rows;
pub use projection::Projection;
pub use quality::Quality;
pub use refusals::{Action, RefusalCount};
pub use sliced::Directions;
pub use slope::largest_slope;

use ostar_engine::{Result, Rows};

/// How many rows of `width` finite numbers `latents` holds; anything else is an error that names `what`.
fn count_rows(what: &'static str, latents: &[f32], width: usize) -> Result<usize> {
    let rows = Rows::new(latents, width)?;
    rows.check(what, width)?;
    Ok(rows.count())
}

fn squared_distance<L, R>(left: &[L], right: &[R]) -> f64
where
    L: Copy + Into<f64>,
    R: Copy + Into<f64>,
{
    let squares = left.iter().zip(right).map(|(left, right)| {
        let difference: f64 = (*left).into() - (*right).into();
        difference * difference
    });
    squares.sum()
}
