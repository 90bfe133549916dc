//! A backtest of a file gives what the daemon gives for the same stream.

use anyhow::Result;
use ostar_harness::promises;

use crate::{PROGRAM, broker};

#[test]
fn a_backtest_gives_block_by_block_what_the_daemon_gives_labels_and_a_restart_included()
-> Result<()> {
    let mock = broker(&["stream", "stream-labels"]);
    promises::a_backtest_gives_block_by_block_what_the_daemon_gives(&mock, PROGRAM, "stream", 1)
}
