//! The report as a picture: shares with their intervals above, accuracies below.

use anyhow::{Result, anyhow};
use ostar_method::Candidate;
use plotters::{
    coord::{Shift, types::RangedCoordf64},
    prelude::*,
};

use super::report::Report;
use crate::proto::State;

const SIZE: (u32, u32) = (960, 640);
const TEXT: (&str, i32) = ("sans-serif", 14);

/// The whole picture as SVG.
pub(super) fn draw(report: &Report) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let drawn = draw_on(report, &area);
        drawn.map_err(|error| anyhow!("cannot draw the report: {error}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a, T = ()> =
    Result<T, DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;
/// Events to the right, shares upwards.
type Chart<'c, 'a> = ChartContext<'c, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn draw_on<'a>(report: &Report, area: &Area<'a>) -> Drawn<'a> {
    area.fill(&WHITE)?;
    let labelled = report.measured.is_some();
    if labelled {
        let halves = area.split_evenly((2, 1));
        draw_proportions(report, &halves[0])?;
        draw_accuracies(report, &halves[1])?;
    } else {
        draw_proportions(report, area)?;
    }
    area.present()
}

/// An empty chart of shares from `lowest` to 1.
fn axes<'c, 'a>(
    report: &Report,
    area: &'c Area<'a>,
    caption: &str,
    lowest: f64,
) -> Drawn<'a, Chart<'c, 'a>> {
    let last = report.moments.last();
    let last_event = last.map_or(1.0, |state| state.events.max(1) as f64);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, TEXT)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(40)
        .build_cartesian_2d(0.0..last_event, lowest..1.0)?;
    chart
        .configure_mesh()
        .x_desc("events")
        .x_label_formatter(&|events| format!("{events:.0}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .draw()?;
    Ok(chart)
}

/// A line with its name in the legend.
fn line<'c, 'a: 'c>(
    chart: &mut Chart<'c, 'a>,
    points: impl Iterator<Item = (f64, f64)>,
    colour: RGBAColor,
    name: &str,
) -> Drawn<'a> {
    chart
        .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
        .label(name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    Ok(())
}

fn legend<'c, 'a: 'c>(mut chart: Chart<'c, 'a>) -> Drawn<'a> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
}

fn draw_proportions<'a>(report: &Report, area: &Area<'a>) -> Drawn<'a> {
    let caption = "class shares: estimates with 95 % intervals as lines, true shares as dots";
    let mut chart = axes(report, area, caption, 0.0)?;
    for (class, name) in report.description.classes.iter().enumerate() {
        let colour = Palette99::pick(class).to_rgba();
        let served = |state: &State| {
            let class = &state.classes[class];
            let (low, high) = (class.served_low, class.served_high);
            (state.events as f64, class.served, low, high)
        };
        let points: Vec<_> = report.moments.iter().map(served).collect();
        let low = points.iter().map(|(events, _, low, _)| (*events, *low));
        let high = points
            .iter()
            .rev()
            .map(|(events, _, _, high)| (*events, *high));
        let band: Vec<_> = low.chain(high).collect();
        chart.draw_series([Polygon::new(band, colour.mix(0.2).filled())])?;
        let shares = points.iter().map(|(events, share, ..)| (*events, *share));
        line(&mut chart, shares, colour, name)?;
        let truth = report.moments.iter().filter_map(|state| {
            let share = state.classes[class].among_labels?;
            Some(Circle::new((state.events as f64, share), 1, colour))
        });
        chart.draw_series(truth)?;
    }
    legend(chart)
}

fn draw_accuracies<'a>(report: &Report, area: &Area<'a>) -> Drawn<'a> {
    let measured = |state: &State, name: &str| {
        let candidate = state.candidates.iter().find(|one| one.name == name)?;
        Some((state.events as f64, candidate.accuracy?))
    };
    let candidates = report.moments.iter().flat_map(|state| &state.candidates);
    let values = candidates.filter_map(|one| one.accuracy);
    let lowest = values.fold(1.0, f64::min);
    let caption = "accuracy of the labels that came with each block";
    let mut chart = axes(report, area, caption, (lowest - 0.02).max(0.0))?;
    // The served accuracy is omitted: its line would cover that of the candidate that was served.
    for (number, candidate) in Candidate::ALL.into_iter().enumerate() {
        let colour = Palette99::pick(number + 4).to_rgba();
        let points = report.moments.iter();
        let points = points.filter_map(|state| measured(state, candidate.name()));
        line(&mut chart, points, colour, candidate.name())?;
    }
    legend(chart)
}
