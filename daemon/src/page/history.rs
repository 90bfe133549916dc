//! The last hour of frames, in a ring of bounded size.

use std::collections::VecDeque;

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::columns::Column;

/// Points that are kept: about as many as a chart is wide in pixels.
const POINTS: usize = 900;
/// Coarsest spacing of points, in frames. With one frame per second, 900 points of every fourth frame are an hour.
const COARSEST: u64 = 4;

/// Points in time, each with one value per column. It keeps every frame at first. When it is full, it drops every second
/// point and from then on keeps every second frame, and so on until it holds an hour. After that the oldest point goes.
#[derive(Debug)]
pub(super) struct History {
    columns: usize,
    points: VecDeque<Point>,
    /// Frames from one point to the next.
    every: u64,
    /// Frames seen so far, kept or not.
    frames: u64,
}

#[derive(Debug)]
struct Point {
    time_ms: u64,
    values: Box<[f32]>,
}

impl History {
    pub(super) fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.len(),
            points: VecDeque::new(),
            every: 1,
            frames: 0,
        }
    }

    /// Takes a frame's values, one per column.
    pub(super) fn push(&mut self, time_ms: u64, values: Box<[f32]>) {
        debug_assert_eq!(values.len(), self.columns);
        let frame = self.frames;
        self.frames += 1;
        if !frame.is_multiple_of(self.every) {
            return;
        }
        if self.points.len() == POINTS {
            if self.every < COARSEST {
                self.thin_out();
            } else {
                self.points.pop_front();
            }
        }
        self.points.push_back(Point { time_ms, values });
    }

    /// Drops every second point. The points that stay are evenly spaced, and so is the one that is added next: the first
    /// point is of frame 0 and [`POINTS`] is even, so the next frame's number is a multiple of the new spacing.
    fn thin_out(&mut self) {
        let mut keep = false;
        self.points.retain(|_| {
            keep = !keep;
            keep
        });
        self.every *= 2;
    }
}

/// Column by column, as the charts take it.
impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let times: Vec<u64> = self.points.iter().map(|point| point.time_ms).collect();
        let column = |number: usize| -> Vec<f32> {
            let values = self.points.iter().map(|point| point.values[number]);
            values.collect()
        };
        let columns: Vec<Vec<f32>> = (0..self.columns).map(column).collect();
        let mut history = serializer.serialize_struct("History", 2)?;
        history.serialize_field("times", &times)?;
        history.serialize_field("columns", &columns)?;
        history.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times that are held after so many frames, one per second.
    fn seconds_after(frames: u64) -> Vec<u64> {
        let mut history = History::new(&[Column::LagRecords]);
        for frame in 0..frames {
            history.push(frame, [frame as f32].into());
        }
        history.points.iter().map(|point| point.time_ms).collect()
    }

    #[test]
    fn every_second_is_kept_until_the_ring_is_full() {
        assert_eq!(seconds_after(900), (0..900).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_ring_gets_coarser_and_stays_even() {
        assert_eq!(seconds_after(901), (0..901).step_by(2).collect::<Vec<_>>());
        assert_eq!(
            seconds_after(1_799),
            (0..1_799).step_by(2).collect::<Vec<_>>()
        );
        assert_eq!(
            seconds_after(1_801),
            (0..1_801).step_by(4).collect::<Vec<_>>()
        );
    }

    #[test]
    fn after_a_day_it_holds_the_last_hour() {
        let day = 86_400;
        let held = seconds_after(day);
        assert_eq!(held.len(), POINTS);
        assert_eq!(held, (day - 3_600..day).step_by(4).collect::<Vec<_>>());
    }

    #[test]
    fn it_is_written_column_by_column_and_what_is_not_known_is_null() {
        let mut history = History::new(&[Column::EventsPerSecond, Column::LagRecords]);
        history.push(10, [0.5, f32::NAN].into());
        history.push(11, [0.25, 3.0].into());
        let written = serde_json::to_value(&history).unwrap();
        let expected = serde_json::json!({
            "times": [10, 11],
            "columns": [[0.5, 0.25], [null, 3.0]],
        });
        assert_eq!(written, expected);
    }
}
