//! Error curves: the share of spam missed over the share of ham classified as spam.

use std::error::Error;

use plotters::prelude::*;

use super::report::{Answer, points};

const SIZE: (u32, u32) = (900, 560);
/// Colours that colour-blind people can distinguish (after Okabe and Ito).
const COLORS: [RGBColor; 2] = [RGBColor(90, 101, 112), RGBColor(0, 114, 178)];
/// Lower end of the axis of spam missed, as a share; a logarithmic axis has no 0.
const MISSED_MIN: f64 = 0.000_1;

/// Draws the curves as SVG. Both axes are logarithmic.
pub(super) fn svg(title: &str, lines: &[(&str, &[Answer])]) -> Result<String, Box<dyn Error>> {
    let answers = lines.first().map_or(&[][..], |(_, answers)| answers);
    let spam = answers.iter().filter(|answer| answer.is_spam).count();
    let ham = answers.len() - spam;
    let least = 0.5 / ham.max(1) as f64;
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let title = format!("{title}: {spam} spam, {ham} ham");
        let mut chart = ChartBuilder::on(&area)
            .caption(title, ("sans-serif", 20))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d((least..1.0).log_scale(), (MISSED_MIN..1.0).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("share of ham that is taken for spam")
            .y_desc("share of spam that is missed")
            .light_line_style(TRANSPARENT)
            .draw()?;
        for ((name, answers), color) in lines.iter().zip(COLORS) {
            chart
                .draw_series(LineSeries::new(steps(answers, least), color.stroke_width(2)))?
                .label(*name)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], color));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE)
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
    }
    Ok(text)
}

/// Returns the corners of a step curve: the least share of spam missed for each share of false
/// positives.
fn steps(answers: &[Answer], least: f64) -> Vec<(f64, f64)> {
    let spam = answers.iter().filter(|answer| answer.is_spam).count();
    let ham = (answers.len() - spam).max(1) as f64;
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (positives, missed) in points(answers) {
        let at = (positives as f64 / ham).max(least);
        let missed = (missed as f64 / spam.max(1) as f64).max(MISSED_MIN);
        match steps.last().copied() {
            Some((last, _)) if last == at => drop(steps.pop()),
            Some((_, before)) => steps.push((at, before)),
            None => {}
        }
        steps.push((at, missed));
    }
    steps
}
