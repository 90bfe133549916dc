//! File handles: some are kept for the daemon's own files, however many clients connect.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// Handles that connections never take: checkpoints, the bundle, certificates, logs, and librdkafka's connections to the
/// brokers of every topic.
const RESERVED: u64 = 256;

/// Raises the process's limit of open files as far as it may, and gives the number of connections that each of the
/// `listeners` can have: `wanted`, or fewer if the limit leaves no more.
pub(crate) fn usable_connections(wanted: usize, listeners: usize) -> usize {
    let limit = raise();
    let most = most_connections(limit, listeners);
    if most < wanted {
        warn!(
            wanted,
            most,
            limit,
            "fewer connections than connections.max: the limit of open files (ulimit -n) is too low"
        );
    }
    wanted.min(most)
}

/// Half of the limit is reserved where it is very low. At least one connection each, or nobody could ask for health.
fn most_connections(limit: u64, listeners: usize) -> usize {
    let own = RESERVED.min(limit / 2);
    let each = (limit - own) / listeners.max(1) as u64;
    usize::try_from(each).unwrap_or(usize::MAX).max(1)
}

/// The limit in effect.
fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let (Some(now), most) = (current, maximum.unwrap_or(u64::MAX)) else {
        return u64::MAX;
    };
    // More than a million is no use, and some systems refuse it.
    let wished = most.min(1 << 20);
    if wished <= now {
        return now;
    }
    let raised = Rlimit {
        current: Some(wished),
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => {
            info!(from = now, to = wished, "raised the limit of open files");
            wished
        }
        Err(error) => {
            warn!(%error, limit = now, "cannot raise the limit of open files");
            now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_left_for_the_daemons_own_files() {
        assert_eq!(most_connections(1024, 2), 384);
        assert_eq!(most_connections(1024, 3), 256);
        assert_eq!(most_connections(100, 2), 25);
        assert_eq!(most_connections(1, 3), 1);
        assert!(most_connections(u64::MAX, 2) > 1_000_000);
    }
}
