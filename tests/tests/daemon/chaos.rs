//! A short round of `make chaos`.

use std::time::Duration;

use anyhow::Result;
use ostar_tests::{gaussians, kafka::Kafka, ledger::Round};

use crate::{Alone, PROGRAM};

pub(crate) const TESTS: &[(&str, Alone)] = &[(
    "in_half_a_minute_of_chaos_no_promise_is_broken",
    half_a_minute,
)];

fn half_a_minute(kafka: &mut Kafka) -> Result<()> {
    let folder = tempfile::tempdir()?;
    gaussians::write_bundle(&folder.path().join("bundle"))?;
    let round = Round {
        program: PROGRAM.to_owned(),
        seed: 11,
        duration: Duration::from_secs(30),
        chaos: true,
        leaks: false,
        tell: |_| (),
    };
    round.run(kafka, folder.path()).map(drop)
}
