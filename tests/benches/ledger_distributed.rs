//! Scorers, learners and brokers come and go, then the ledger of events and outputs is settled: `make ledger-distributed`.
//!
//! `-- --seeds 1,2,3 --events 200000 --kills 5` are the defaults. A seed that fails decides the same faults when it is run
//! again; their timing differs. OSTARD names another program than that of the tests.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

use anyhow::{Context, Result, bail};
use ostar_tests::{distributed::Round, gaussians};

fn main() -> Result<()> {
    let (mut seeds, mut events, mut kills) = (vec![1, 2, 3], 200_000, 5);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("a flag without a value");
        match argument.as_str() {
            "--seeds" => {
                let list = value()?;
                seeds = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--events" => events = value()?.parse()?,
            "--kills" => kills = value()?.parse()?,
            // cargo adds it.
            "--bench" => {}
            other => {
                bail!("{other} is no flag, expected --seeds 1,2,3, --events 200000 or --kills 5")
            }
        }
    }
    let own = env!("CARGO_BIN_EXE_ostard-under-test");
    let program = std::env::var("OSTARD").unwrap_or_else(|_| own.to_owned());
    let mut failed = Vec::new();
    for seed in seeds {
        println!("seed {seed}, {events} events");
        let round = Round {
            program: program.clone(),
            seed,
            events,
            kills,
            tell: |line| println!("{line}"),
        };
        let folder = tempfile::tempdir()?;
        gaussians::write_bundle(&folder.path().join("bundle"))?;
        match round.run(folder.path()) {
            Ok(account) => println!("{account}\nthe state is that of an undisturbed replay\n"),
            Err(error) => {
                println!("seed {seed} failed: {error:?}\n");
                failed.push(seed);
            }
        }
    }
    if !failed.is_empty() {
        bail!("the ledger does not balance with seeds {failed:?}");
    }
    Ok(())
}
