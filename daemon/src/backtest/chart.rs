//! The report as a picture: shares with their intervals above, accuracies below.

use anyhow::{Result, anyhow};
use ostar_method::learner::Predictor;
use plotters::{coord::Shift, prelude::*};

use super::report::{Moment, Report};

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
type Drawn<'a> = Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn draw_on<'a>(report: &Report, area: &Area<'a>) -> Drawn<'a> {
    area.fill(&WHITE)?;
    let labelled = report.measured().is_some();
    if labelled {
        let halves = area.split_evenly((2, 1));
        draw_proportions(report, &halves[0])?;
        draw_accuracies(report, &halves[1])?;
    } else {
        draw_proportions(report, area)?;
    }
    area.present()
}

fn last_event(report: &Report) -> f64 {
    let last = report.moments.last();
    last.map_or(1.0, |moment| moment.status.events.max(1) as f64)
}

fn draw_proportions<'a>(report: &Report, area: &Area<'a>) -> Drawn<'a> {
    let mut chart = ChartBuilder::on(area)
        .caption(
            "class shares: estimates with 95 % intervals as lines, true shares as dots",
            TEXT,
        )
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(40)
        .build_cartesian_2d(0.0..last_event(report), 0.0..1.0)?;
    chart
        .configure_mesh()
        .x_desc("events")
        .x_label_formatter(&|events| format!("{events:.0}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .draw()?;
    for (class, name) in report.description.classes.iter().enumerate() {
        let colour = Palette99::pick(class).to_rgba();
        let served = |moment: &Moment| {
            let block = moment.status.block.as_ref()?;
            let estimate = &block.served;
            let interval = estimate.intervals[class];
            Some((
                moment.status.events as f64,
                estimate.proportions[class],
                interval.low,
                interval.high,
            ))
        };
        let points: Vec<_> = report.moments.iter().filter_map(served).collect();
        let low = points.iter().map(|(events, _, low, _)| (*events, *low));
        let high = points
            .iter()
            .rev()
            .map(|(events, _, _, high)| (*events, *high));
        let band: Vec<_> = low.chain(high).collect();
        chart.draw_series([Polygon::new(band, colour.mix(0.2).filled())])?;
        let line = points
            .iter()
            .map(|(events, proportion, ..)| (*events, *proportion));
        chart
            .draw_series(LineSeries::new(line, colour.stroke_width(2)))?
            .label(name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
        let truth = report.moments.iter().filter_map(|moment| {
            let shares = moment.truth.as_ref()?;
            Some(Circle::new(
                (moment.status.events as f64, shares[class]),
                1,
                colour,
            ))
        });
        chart.draw_series(truth)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
}

fn draw_accuracies<'a>(report: &Report, area: &Area<'a>) -> Drawn<'a> {
    let measured = |moment: &Moment, number: usize| {
        let measures = &moment.measured()?.block.as_ref()?.by_predictor[number];
        Some((moment.status.events as f64, measures.accuracy))
    };
    let all = report.moments.iter();
    let values = all.flat_map(|m| (0..Predictor::ALL.len()).filter_map(|n| measured(m, n)));
    let lowest = values.map(|(_, accuracy)| accuracy).fold(1.0, f64::min);
    let mut chart = ChartBuilder::on(area)
        .caption("accuracy of the labels that came with each block", TEXT)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(40)
        .build_cartesian_2d(0.0..last_event(report), (lowest - 0.02).max(0.0)..1.0)?;
    chart
        .configure_mesh()
        .x_desc("events")
        .x_label_formatter(&|events| format!("{events:.0}"))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .draw()?;
    // The served accuracy is omitted: its line would cover that of the candidate that was served.
    let candidates = Predictor::ALL.iter().enumerate();
    for (number, candidate) in candidates.filter(|(_, c)| **c != Predictor::Served) {
        let colour = Palette99::pick(number + 4).to_rgba();
        let points = report.moments.iter().filter_map(|m| measured(m, number));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(candidate.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()
}
