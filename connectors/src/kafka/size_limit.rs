//! What is known of the largest message that a topic takes.

use std::time::{Duration, Instant};

/// Remembers the smallest message that the broker refused for its size.
///
/// An idempotent producer takes a new epoch after each refusal, which limits a topic that refuses every message: some
/// twenty a second were seen, on a busy machine. Messages that are at least as large as one that was refused alone are therefore not tried.
#[derive(Debug, Default)]
pub(super) struct SizeLimit {
    refused: Option<Refused>,
}

#[derive(Debug)]
struct Refused {
    size: usize,
    reason: String,
    next_try: Instant,
}

/// How often a message is tried although it is too large by what is known: the topic's limit may have been raised.
const TRY_EVERY: Duration = Duration::from_secs(5);

impl SizeLimit {
    /// A message of this size was refused alone.
    pub(super) fn refused(&mut self, size: usize, reason: &str, now: Instant) {
        let smallest = self.refused.as_ref().map_or(size, |known| known.size);
        self.refused = Some(Refused {
            size: size.min(smallest),
            reason: reason.to_owned(),
            next_try: now + TRY_EVERY,
        });
    }

    /// A message of this size was delivered.
    pub(super) fn taken(&mut self, size: usize) {
        self.refused = self.refused.take().filter(|known| known.size > size);
    }

    /// Why a message of this size would be refused; `None` if it is to be tried.
    pub(super) fn refuses(&mut self, size: usize, now: Instant) -> Option<String> {
        let known = self.refused.as_mut().filter(|known| known.size <= size)?;
        if now >= known.next_try {
            known.next_try = now + TRY_EVERY;
            return None;
        }
        Some(known.reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_large_as_a_refused_message_is_tried_once_in_a_while_until_one_is_taken() {
        let start = Instant::now();
        let mut limit = SizeLimit::default();
        assert_eq!(limit.refuses(1_000, start), None);
        limit.refused(500, "too large", start);
        limit.refused(900, "too large", start);
        assert_eq!(limit.refuses(499, start), None);
        assert_eq!(limit.refuses(500, start).as_deref(), Some("too large"));
        limit.taken(499);
        assert!(limit.refuses(900, start).is_some());
        let later = start + TRY_EVERY;
        assert_eq!(limit.refuses(900, later), None, "tried again");
        assert!(limit.refuses(900, later).is_some(), "once");
        limit.taken(900);
        assert_eq!(limit.refuses(900, later), None);
    }
}
