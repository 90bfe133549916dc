//! A backtest of a file gives what the daemon gives for the same stream.

use std::thread;

use anyhow::{Context, Result};
use ostar_harness::promises;

use crate::{PROGRAM, broker};

#[test]
fn a_backtest_gives_block_by_block_what_the_daemon_gives_labels_and_a_restart_included()
-> Result<()> {
    let compare = |seed| {
        let mock = broker(&["stream", "stream-labels"]);
        promises::a_backtest_gives_block_by_block_what_the_daemon_gives(
            &mock, PROGRAM, "stream", seed,
        )
    };
    thread::scope(|scope| {
        let runs: Vec<_> = (1..=5)
            .map(|seed| (seed, scope.spawn(move || compare(seed))))
            .collect();
        for (seed, run) in runs {
            let compared = run.join().expect("a comparison returns its errors");
            compared.with_context(|| format!("seed {seed}"))?;
        }
        Ok(())
    })
}
