//! What the fuzz targets of the other crates share: a kept corpus, and changes to what is in it.
//!
//! A target is a test that calls [`fuzz!`]. `cargo test` runs it for [`ROUND`]; `FUZZ_SECONDS=300 cargo test fuzz` for longer.
//! Random bytes seldom get past the first check of a parser, so most inputs are changed seeds. To keep a finding, put its
//! bytes into `fuzzing/corpus/TARGET`: every file there is tried first.

pub use bolero;

use std::{fs, panic::AssertUnwindSafe, path::Path, time::Duration};

/// How long a target runs if nothing else is asked for.
pub const ROUND: Duration = Duration::from_millis(500);

/// Longest sequence of random bytes.
pub const MAX_LENGTH: usize = 1_024;

/// Bytes that mean something to one of the formats.
const TOKENS: [&[u8]; 20] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"\n",
    b"\\u0000",
    b"null",
    b"NaN",
    b"-0",
    b"1e999",
    b"1e-999",
    b"99999999999999999999",
    b"\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x10",
    b"\0\0\0\0",
    b"\xc3\x28",
    b"\x7f\xf8\0\0",
];

/// The files of `fuzzing/corpus/TARGET`, in the order of their names.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read(path).ok())
        .collect()
}

/// How long to run: `FUZZ_SECONDS`, or [`ROUND`].
pub fn duration() -> Duration {
    let seconds = std::env::var("FUZZ_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok());
    seconds.map_or(ROUND, Duration::from_secs)
}

/// What a target does with an input. It may hold anything: after a panic nothing uses it any more.
pub struct Check<F>(AssertUnwindSafe<F>);

impl<F: Fn(&[u8])> Check<F> {
    /// For [`fuzz!`].
    pub fn new(check: F) -> Self {
        Self(AssertUnwindSafe(check))
    }

    /// Tries an input.
    pub fn run(&self, input: &[u8]) {
        (self.0)(input);
    }
}

/// One input: the random bytes themselves, or a seed that they say how to change.
pub fn input(seeds: &[Vec<u8>], random: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes(random);
    let choice = usize::from(bytes.take());
    // One in eight is random as a whole.
    if seeds.is_empty() || choice.is_multiple_of(8) {
        return bytes.0.to_vec();
    }
    let mut input = seeds[choice % seeds.len()].clone();
    for _ in 0..=bytes.take() % 8 {
        change(&mut input, &mut bytes, seeds);
    }
    input
}

/// Random bytes, and zeros once they are used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: usize) -> usize {
        let number = usize::from(self.take()) << 16 | usize::from(self.take()) << 8;
        (number | usize::from(self.take())) % limit.max(1)
    }
}

fn change(input: &mut Vec<u8>, bytes: &mut Bytes<'_>, seeds: &[Vec<u8>]) {
    let at = bytes.below(input.len() + 1);
    let length = bytes.below(32).min(input.len() - at);
    match bytes.take() % 8 {
        0 if at < input.len() => input[at] ^= 1 << (bytes.take() % 8),
        1 if at < input.len() => input[at] = bytes.take(),
        2 => drop(input.drain(at..at + length)),
        3 => {
            let piece = input[at..at + length].to_vec();
            input.splice(at..at, piece);
        }
        4 => input.truncate(at),
        5 => {
            let token = TOKENS[bytes.below(TOKENS.len())];
            input.splice(at..at, token.iter().copied());
        }
        6 => {
            let token = TOKENS[bytes.below(TOKENS.len())];
            input.splice(at..at + length, token.iter().copied());
        }
        _ => {
            let other = &seeds[bytes.below(seeds.len())];
            let from = bytes.below(other.len() + 1);
            let piece = other[from..(from + 64).min(other.len())].to_vec();
            input.splice(at..at + length, piece);
        }
    }
}

/// Tries inputs on `$check`, a function of `&[u8]` that must not panic. `$seeds` are added to the corpus of `$target`.
#[macro_export]
macro_rules! fuzz {
    ($target:expr, $seeds:expr, $check:expr) => {{
        let mut seeds: Vec<Vec<u8>> = $crate::corpus($target);
        seeds.extend($seeds);
        let check = $crate::Check::new($check);
        for seed in &seeds {
            check.run(seed);
        }
        let runs = ::std::sync::atomic::AtomicU64::new(0);
        $crate::bolero::check!()
            .with_iterations(usize::MAX)
            .with_test_time($crate::duration())
            .with_max_len($crate::MAX_LENGTH)
            .for_each(|random: &[u8]| {
                runs.fetch_add(1, ::std::sync::atomic::Ordering::Relaxed);
                check.run(&$crate::input(&seeds, random));
            });
        // Only shown with --nocapture.
        #[allow(clippy::print_stdout, reason = "what a run was worth")]
        {
            println!("{}: {} executions", $target, runs.into_inner());
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_near_their_seeds_and_any_bytes_make_one() {
        let seeds = vec![b"{\"latent\": [1, 2, 3]}".to_vec(), Vec::new()];
        let mut near = 0;
        for number in 0..4_096_u32 {
            let random: Vec<u8> = (0..40)
                .map(|n| (number.wrapping_mul(2_654_435_761) >> (n % 24)) as u8)
                .collect();
            let input = input(&seeds, &random);
            near += usize::from(input.windows(4).any(|window| window == b"late"));
        }
        assert!(near > 500, "{near}");
        assert_eq!(input(&[], &[]), Vec::<u8>::new());
    }
}
