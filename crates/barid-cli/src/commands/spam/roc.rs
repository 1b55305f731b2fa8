//! How much spam is found for how much ham that is taken for it, as a picture.

use std::error::Error;

use barid::spam::{Point, Tuned};
use plotters::prelude::*;

const SIZE: (u32, u32) = (900, 600);
/// Colours that are told apart also by people who see few of them (after Okabe and Ito).
const NOW: RGBColor = RGBColor(90, 101, 112);
const RECOMMENDED: RGBColor = RGBColor(0, 114, 178);

/// The SVG file: false positives on a logarithmic scale, from less than one message on.
pub(super) fn svg(tuned: &Tuned) -> Result<String, Box<dyn Error>> {
    let lines = [
        ("now", NOW, rates(tuned, &tuned.now.curve)),
        ("recommended", RECOMMENDED, rates(tuned, &tuned.recommended.curve)),
    ];
    let shown = lines.iter().flat_map(|(.., points)| points.iter().map(|(_, found)| *found));
    // What is found without any false positive is near the least; the rest is near 1.
    let least = (shown.fold(1.0, f64::min) * 20.0).floor() / 20.0;
    let (from, least) = (floor(tuned), least.min(0.95));
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let title = format!("{} spam, {} ham", tuned.tested.spam, tuned.tested.ham);
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 20))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d((from..1.0).log_scale(), least..1.0)?;
        chart
            .configure_mesh()
            .x_desc("share of ham that is taken for spam")
            .y_desc("share of spam that is found")
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (name, color, points) in lines {
            chart
                .draw_series(LineSeries::new(points, color.stroke_width(2)))?
                .label(name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], color));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE)
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

/// Where the axis begins: half of one message.
fn floor(tuned: &Tuned) -> f64 {
    0.5 / f64::from(tuned.tested.ham.max(1))
}

/// Steps: what is found stays the same up to the next cut-off.
fn rates(tuned: &Tuned, curve: &[Point]) -> Vec<(f64, f64)> {
    let (spam, ham) = (f64::from(tuned.tested.spam.max(1)), f64::from(tuned.tested.ham.max(1)));
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for point in curve {
        let at = (f64::from(point.false_positives) / ham).max(floor(tuned));
        let found = 1.0 - f64::from(point.missed) / spam;
        match steps.last().copied() {
            Some((last, _)) if last == at => steps.pop(),
            Some((_, before)) => {
                steps.push((at, before));
                None
            }
            None => None,
        };
        steps.push((at, found));
    }
    steps
}
