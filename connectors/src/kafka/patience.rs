//! Asks a broker again while it says that it is not ready yet.

use std::{
    thread,
    time::{Duration, Instant},
};

use rdkafka::error::{KafkaError as RdKafkaError, KafkaResult, RDKafkaErrorCode};

/// Pause between two questions.
const RETRY: Duration = Duration::from_millis(100);

/// Asks until the answer is not "not yet" any more, at most for so long. The question gets the time that is left.
pub(super) fn ask<T>(
    timeout: Duration,
    question: impl Fn(Duration) -> KafkaResult<T>,
) -> KafkaResult<T> {
    let deadline = Instant::now() + timeout;
    loop {
        let answer = question(deadline.saturating_duration_since(Instant::now()));
        match &answer {
            Err(error) if is_not_yet(error) && Instant::now() + RETRY < deadline => {
                tracing::debug!(%error, "the broker is not ready yet");
                thread::sleep(RETRY);
            }
            _ => return answer,
        }
    }
}

/// Whether the broker elects a leader or a coordinator at the moment, or loads what it needs. On a new cluster the first
/// question about a group creates the topic of offsets, which takes seconds.
pub(super) fn is_not_yet(error: &RdKafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::CoordinatorLoadInProgress
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::LeaderNotAvailable
                | Code::NotLeaderForPartition
                | Code::OffsetNotAvailable
        )
    )
}
