//! Bar and line plots of the results page, as SVG.

use anyhow::{Result, anyhow};
use plotters::{coord::Shift, prelude::*};

const TEXT: (&str, i32) = ("sans-serif", 14);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw(size: (u32, u32), on: impl for<'a> Fn(&Area<'a>) -> Drawn<'a>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let drawn = area.fill(&WHITE).and_then(|()| on(&area));
        let drawn = drawn.and_then(|()| area.present());
        drawn.map_err(|error| anyhow!("cannot draw: {error}"))?;
    }
    Ok(svg)
}

/// Smallest and largest of the values with a margin of 5 %; 0 to 1 if there are none.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    // Without values the fold leaves infinities the wrong way round.
    if low > high {
        return (0.0, 1.0);
    }
    let margin = 0.05 * (high - low).max(0.1);
    (low - margin, high + margin)
}

/// A group of bars for each name, with one bar for each series.
pub(super) fn bars<const N: usize>(
    title: &str,
    series: &[&str; N],
    groups: &[(&str, [Option<f64>; N])],
) -> Result<String> {
    let (low, high) = range(
        groups
            .iter()
            .flat_map(|(_, values)| values.iter().flatten().copied()),
    );
    draw((960, 360), |area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, TEXT)
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(45)
            .build_cartesian_2d(0.0..groups.len() as f64, low..high)?;
        let name = |place: &f64| {
            let group = groups.get(*place as usize);
            group.map_or(String::new(), |(name, _)| (*name).to_owned())
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(groups.len())
            .x_label_formatter(&name)
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.1))
            .draw()?;
        for (number, label) in series.iter().enumerate() {
            let colour = Palette99::pick(number + 4).to_rgba();
            let width = 0.8 / N as f64;
            let bars = groups
                .iter()
                .enumerate()
                .filter_map(|(place, (_, values))| {
                    let left = place as f64 + 0.1 + width * number as f64;
                    let corners = [(left, low), (left + width, values[number]?)];
                    Some(Rectangle::new(corners, colour.filled()))
                });
            chart
                .draw_series(bars)?
                .label(*label)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 4), (x + 12, y + 4)], colour.filled())
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK)
            .draw()
    })
}

/// A line through equally spaced, named points.
pub(super) fn steps(title: &str, points: &[(String, f64)]) -> Result<String> {
    let (low, high) = range(points.iter().map(|(_, value)| *value));
    draw((720, 320), |area| {
        let last = points.len().saturating_sub(1).max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .caption(title, TEXT)
            .margin(10)
            .x_label_area_size(30)
            .y_label_area_size(45)
            .build_cartesian_2d(0.0..last, low..high)?;
        let name = |place: &f64| {
            let point = points.get(place.round() as usize);
            point.map_or(String::new(), |(name, _)| name.clone())
        };
        chart
            .configure_mesh()
            .x_labels(points.len())
            .x_label_formatter(&name)
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.1))
            .draw()?;
        let colour = Palette99::pick(4).to_rgba();
        let line = points
            .iter()
            .enumerate()
            .map(|(place, (_, value))| (place as f64, *value));
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        Ok(())
    })
}

/// Two panels of lines over the stream, one above the other.
pub(super) fn two_panels(
    above: (&str, &[(&str, Vec<f64>)]),
    below: (&str, &[(&str, Vec<f64>)]),
) -> Result<String> {
    draw((960, 560), |area| {
        let halves = area.split_evenly((2, 1));
        panel(&halves[0], above.0, above.1)?;
        panel(&halves[1], below.0, below.1)
    })
}

fn panel<'a>(area: &Area<'a>, title: &str, lines: &[(&str, Vec<f64>)]) -> Drawn<'a> {
    let (low, high) = range(lines.iter().flat_map(|(_, values)| values.iter().copied()));
    let parts = lines.first().map_or(1, |(_, values)| values.len());
    let mut chart = ChartBuilder::on(area)
        .caption(title, TEXT)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(45)
        .build_cartesian_2d(0.0..parts as f64, low..high)?;
    chart
        .configure_mesh()
        .x_desc("tenths of the stream")
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .draw()?;
    for (number, (name, values)) in lines.iter().enumerate() {
        let colour = Palette99::pick(number).to_rgba();
        let points = values
            .iter()
            .enumerate()
            .map(|(part, value)| (part as f64 + 0.5, *value));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
}
