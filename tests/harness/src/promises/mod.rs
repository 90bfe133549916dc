//! What `ostard` promises with any broker: run against the mock in the quick tests, and against a real one.

mod backtest;
mod kills;
mod standby;

pub use backtest::{
    a_backtest_gives_block_by_block_what_a_scorer_serves,
    a_backtest_gives_block_by_block_what_the_daemon_gives,
};
pub use kills::kills_leave_the_state_of_an_uninterrupted_run_and_every_prediction;
pub use standby::a_standby_takes_over_after_a_stop_and_after_a_kill;
