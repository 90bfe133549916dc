//! Minutes of faults around the daemon, then the ledger of events and outputs is settled: `make ledger`.
//!
//! `-- --seeds 1,2,3 --seconds 300` are the defaults. A seed that fails decides the same faults when it is run again; their
//! timing differs. `--chaos` adds hostile clients, freezes, a bad network, a full disk and witnesses (`make chaos`). `--leaks` is the control: the
//! tests' daemon loses memory, and a round that does not notice fails. OSTARD names another program than that of the tests.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark's outcome is what it prints"
)]

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ostar_tests::{
    gaussians,
    kafka::{Kafka, Listener},
    ledger::{LEAK, Round},
};

fn main() -> Result<()> {
    let (mut seeds, mut seconds, mut chaos, mut leaks) = (vec![1, 2, 3], 300, false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().context("a flag without a value");
        match argument.as_str() {
            "--seeds" => {
                let list = value()?;
                seeds = list.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--seconds" => seconds = value()?.parse()?,
            "--chaos" => chaos = true,
            "--leaks" => (chaos, leaks) = (true, true),
            // cargo adds it.
            "--bench" => {}
            other => bail!(
                "{other} is no flag, expected --seeds 1,2,3, --seconds 300, --chaos or --leaks"
            ),
        }
    }
    let own = env!("CARGO_BIN_EXE_ostard-under-test");
    let program = std::env::var("OSTARD").unwrap_or_else(|_| own.to_owned());
    let mut failed = Vec::new();
    for seed in seeds {
        println!("seed {seed}, {seconds} s");
        let round = Round {
            program: program.clone(),
            seed,
            duration: Duration::from_secs(seconds),
            chaos,
            leaks,
            tell: |line| println!("{line}"),
        };
        let folder = tempfile::tempdir()?;
        gaussians::write_bundle(&folder.path().join("bundle"))?;
        // A broker of its own: what an earlier seed left behind would slow it down.
        let mut kafka = Kafka::start(Listener::Plaintext)?;
        match round.run(&mut kafka, folder.path()) {
            Err(error) if leaks && error.to_string().starts_with(LEAK) => {
                println!("seed {seed}: the leak was noticed: {error:#}\n");
            }
            Ok(_) if leaks => {
                println!("seed {seed} failed: the daemon leaks, and nothing was noticed\n");
                failed.push(seed);
            }
            Ok((account, witness)) => {
                println!("{account}\nthe state is that of an undisturbed replay");
                if let Some(witness) = witness {
                    println!("{witness:?}");
                }
                println!("seed {seed}: no promise was broken\n");
            }
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
