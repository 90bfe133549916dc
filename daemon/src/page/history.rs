//! The last hour of frames, in a ring of bounded size.

use std::collections::VecDeque;

use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::{facts::shares_are_known, proto::State};

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
    pub(super) fn new(columns: usize) -> Self {
        Self {
            columns,
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

/// The figures that charts draw, by the names that `page.js` knows. `None` means not known.
pub(super) fn series(state: &State, events_per_second: Option<f64>) -> Vec<(String, Option<f64>)> {
    let mut series = Vec::new();
    for (place, class) in state.classes.iter().enumerate() {
        let known = |share: f64| shares_are_known(state).then_some(share);
        series.extend([
            (format!("proportion.{place}"), known(class.served)),
            (format!("proportion_low.{place}"), known(class.served_low)),
            (format!("proportion_high.{place}"), known(class.served_high)),
            (format!("true_proportion.{place}"), class.among_labels),
        ]);
    }
    for candidate in &state.candidates {
        let name = &candidate.name;
        series.push((format!("estimated_accuracy.{name}"), candidate.estimated));
        series.push((format!("measured_accuracy.{name}"), candidate.accuracy));
    }
    let shift = state.shift.as_ref();
    let partitions = state.stream.iter().flat_map(|stream| &stream.partitions);
    let lag = partitions.map(|lag| lag.records as f64);
    let others = [
        (
            "distance_before_map",
            shift.map(|shift| shift.distance_before_map),
        ),
        (
            "distance_after_map",
            shift.map(|shift| shift.distance_after_map),
        ),
        ("noise_floor", shift.map(|shift| shift.noise_floor)),
        ("events_per_second", events_per_second),
        ("lag_records", lag.reduce(|a, b| a + b)),
    ];
    series.extend(others.map(|(name, value)| (name.to_owned(), value)));
    series
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
        let mut history = History::new(1);
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
        let mut history = History::new(2);
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
