//! The target window: which of the stream's latents the learner keeps.

use serde::{Deserialize, Serialize};

use crate::{Error, Generator, Result};

/// How the window chooses what to keep. Never by predicted class: that would feed the classifier's
/// mistakes back to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WindowKind {
    /// The newest rows.
    Ring,
    /// A random sample in which a row's chance fades with its age: every new row replaces a random one
    /// with probability `pace`.
    Reservoir {
        /// Chance that a new row enters a full window, in (0, 1]. Half of the window is older than
        /// about 0.7 capacity / pace rows.
        pace: f64,
    },
}

/// Decides which slot a new row takes; the rows themselves are in the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TargetWindow {
    kind: WindowKind,
    capacity: usize,
    filled: usize,
    /// Rows seen since the start.
    seen: u64,
}

impl TargetWindow {
    /// An empty window of `capacity` rows.
    pub(crate) fn new(kind: WindowKind, capacity: usize) -> Result<Self> {
        if capacity == 0 {
            return Err(Error::setting(
                "window.capacity",
                "is 0, expected at least 1",
            ));
        }
        if let WindowKind::Reservoir { pace } = kind
            && !(pace > 0.0 && pace <= 1.0)
        {
            return Err(Error::setting(
                "window.reservoir.pace",
                format!("is {pace}, expected a chance in (0, 1]"),
            ));
        }
        Ok(Self {
            kind,
            capacity,
            filled: 0,
            seen: 0,
        })
    }

    /// How many rows are held.
    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    /// The slot of the next row, or none if it is not kept.
    pub(crate) fn place(&mut self, generator: &mut Generator) -> Option<usize> {
        let number = self.seen;
        self.seen += 1;
        if self.filled < self.capacity {
            self.filled += 1;
            return Some(self.filled - 1);
        }
        match self.kind {
            WindowKind::Ring => Some((number % self.capacity as u64) as usize),
            WindowKind::Reservoir { pace } => {
                (generator.uniform() < pace).then(|| generator.below(self.capacity))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the numbers from 0 on and gives what is held.
    fn fed(kind: WindowKind, capacity: usize, count: usize) -> Vec<usize> {
        let mut window = TargetWindow::new(kind, capacity).unwrap();
        let mut generator = Generator::new(1);
        let mut held = vec![usize::MAX; capacity];
        for row in 0..count {
            if let Some(slot) = window.place(&mut generator) {
                held[slot] = row;
            }
        }
        held
    }

    #[test]
    fn a_ring_holds_the_newest_rows() {
        let mut held = fed(WindowKind::Ring, 10, 37);
        held.sort_unstable();
        assert_eq!(held, (27..37).collect::<Vec<_>>());
    }

    #[test]
    fn a_reservoir_fades_with_age_as_documented() {
        let held = fed(WindowKind::Reservoir { pace: 0.5 }, 2000, 50_000);
        let median_age = 0.7 * 2000.0 / 0.5;
        let older = held
            .iter()
            .filter(|row| (50_000 - **row) as f64 > median_age);
        let share = older.count() as f64 / 2000.0;
        assert!((0.45..0.55).contains(&share), "{share}");
    }

    #[test]
    fn impossible_windows_are_refused_by_name() {
        assert!(TargetWindow::new(WindowKind::Ring, 0).is_err());
        let pace = TargetWindow::new(WindowKind::Reservoir { pace: 0.0 }, 5);
        assert!(
            pace.unwrap_err()
                .to_string()
                .contains("window.reservoir.pace")
        );
    }
}
