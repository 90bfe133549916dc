//! The target window: which of the stream's latents the learner keeps.

use ostar_engine::{Error, Generator, Result};
use serde::{Deserialize, Serialize};

/// How the window chooses what to keep. Never by predicted class: that would feed the classifier's
/// mistakes back to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum WindowKind {
    /// The newest rows of the stream, all of them.
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
    /// Rows seen when the newest row of a shortened ring took its slot; 0 if it never was shortened.
    shortened_at: u64,
    /// Rows that were kept then.
    kept: usize,
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
            shortened_at: 0,
            kept: 0,
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
        // Holds after `shorten` too: `ring_slot` would give the same slot.
        if self.filled < self.capacity {
            self.filled += 1;
            return Some(self.filled - 1);
        }
        match self.kind {
            WindowKind::Ring => Some(self.ring_slot(number)),
            WindowKind::Reservoir { pace } => {
                (generator.uniform() < pace).then(|| generator.below(self.capacity))
            }
        }
    }

    /// Forgets all but the newest rows. Gives the slots that they are in now, oldest first: they must be written
    /// to the slots from 0 on. Nothing for a reservoir, whose slots do not tell how old a row is.
    pub(crate) fn shorten(&mut self, keep: usize) -> Option<Vec<usize>> {
        let keep = keep.min(self.filled);
        if keep == self.filled || self.kind != WindowKind::Ring {
            return None;
        }
        // Computed before the fields below change, which number the slots anew.
        let newest = (self.seen - keep as u64..self.seen).map(|number| self.ring_slot(number));
        let slots = newest.collect();
        self.shortened_at = self.seen;
        self.kept = keep;
        self.filled = keep;
        Some(slots)
    }

    fn ring_slot(&self, number: u64) -> usize {
        // Rows that were kept have slots 0 to `kept`, so their numbers reach below `shortened_at`.
        let since = number + self.kept as u64 - self.shortened_at;
        (since % self.capacity as u64) as usize
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
    fn a_shortened_ring_keeps_the_newest_and_fills_up_again() {
        for (before, keep, after) in [(37, 4, 3), (37, 4, 20), (7, 2, 30), (37, 10, 5)] {
            let mut window = TargetWindow::new(WindowKind::Ring, 10).unwrap();
            let mut generator = Generator::new(1);
            let mut held = vec![usize::MAX; 10];
            let mut feed = |window: &mut TargetWindow, held: &mut Vec<usize>, rows| {
                for row in rows {
                    held[window.place(&mut generator).unwrap()] = row;
                }
            };
            feed(&mut window, &mut held, 0..before);
            if let Some(slots) = window.shorten(keep) {
                let rows: Vec<usize> = slots.iter().map(|slot| held[*slot]).collect();
                held[..rows.len()].copy_from_slice(&rows);
            }
            feed(&mut window, &mut held, before..before + after);
            held.truncate(window.len());
            held.sort_unstable();
            let kept = (keep + after).min(10);
            let newest: Vec<usize> = (before + after - kept..before + after).collect();
            assert_eq!(held, newest, "{before} {keep} {after}");
        }
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
