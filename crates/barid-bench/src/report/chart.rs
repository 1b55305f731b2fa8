//! Charts of medians as SVG that takes its colours from the style of the page.
//!
//! The axis is logarithmic, so that one slow side does not flatten the others. On such an axis
//! positions mean something and lengths do not, so a side is a dot and not a bar; the line through
//! it is its spread, and the value is printed beside it.

use std::error::Error;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::html::{escaped, printable};
use super::medians::{StepMedians, is_competitor, is_ours};
use crate::lab::Spread;
use crate::limits::{CHART_NAME_LEN_MAX, CHART_POINTS_MAX};

/// Colours that stand for variables of the style, which follow in [`VARIABLES`].
const INK: RGBColor = RGBColor(1, 0, 0);
const MUTED: RGBColor = RGBColor(2, 0, 0);
const GRID: RGBColor = RGBColor(3, 0, 0);
const OURS: RGBColor = RGBColor(4, 0, 0);
const THEIRS: RGBColor = RGBColor(5, 0, 0);

const VARIABLES: [(&str, &str); 5] = [
    ("\"#010000\"", "\"var(--ink)\""),
    ("\"#020000\"", "\"var(--muted)\""),
    ("\"#030000\"", "\"var(--grid)\""),
    ("\"#040000\"", "\"var(--ours)\""),
    ("\"#050000\"", "\"var(--theirs)\""),
];

const WIDTH: u32 = 400;
const ROW_HEIGHT: u32 = 19;
const TOP: u32 = 4;
const AXIS_HEIGHT: u32 = 24;
/// Width of the column of values.
const VALUES_WIDTH: u32 = 68;
/// Width of a character of a name.
const LETTER_WIDTH: f64 = 6.8;
/// Least and most time that an axis shows, in seconds.
const LEAST_S: f64 = 1e-6;
const MOST_S: f64 = 1e9;
/// Size of text, which the library divides by 1.24.
const TEXT: (&str, f64) = ("sans-serif", 15.5);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws the real times of all sides of a step; `None` for a step with more sides than a chart
/// takes.
pub(super) fn chart(step: &StepMedians) -> Result<Option<String>> {
    let len = step.sides.len();
    if len == 0 || len > CHART_POINTS_MAX {
        return Ok(None);
    }
    let mut svg = String::new();
    let height = TOP + ROW_HEIGHT * len as u32 + AXIS_HEIGHT;
    draw(step, &mut svg, (WIDTH, height)).map_err(|error| anyhow!("{}: {error}", step.step))?;
    for (color, variable) in VARIABLES {
        svg = svg.replace(color, variable);
    }
    let values = step.sides.iter();
    let values = values.map(|side| format!("{} {}", side.side, seconds(side.seconds.median)));
    let label = format!("{}: {}", step.step, values.collect::<Vec<_>>().join(", "));
    let (_, body) = svg.split_once('>').unwrap_or_default();
    Ok(Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\">{body}",
        escaped(&label)
    )))
}

/// Draws the chart with placeholders for colours.
fn draw(step: &StepMedians, svg: &mut String, size: (u32, u32)) -> Result<(), Box<dyn Error>> {
    let rows = step.sides.len() as f64;
    let (least, most) = ends(step);
    let names: Vec<String> = step.sides.iter().map(|side| short(&side.side)).collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let names_width = longest as f64 * LETTER_WIDTH + 12.0;
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin_top(TOP)
        .margin_bottom(AXIS_HEIGHT)
        .margin_left(names_width as u32)
        .margin_right(VALUES_WIDTH)
        .build_cartesian_2d((least..most).log_scale(), 0.0..rows)?;
    let ticks = ticks(least, most);
    let line = |tick: f64| PathElement::new(vec![(tick, 0.0), (tick, rows)], GRID);
    chart.draw_series(ticks.iter().map(|(tick, _)| line(*tick)))?;
    for (tick, label) in &ticks {
        let (x, y) = chart.backend_coord(&(*tick, 0.0));
        text(&area, label, (x, y + 5), MUTED, Pos::new(HPos::Center, VPos::Top))?;
    }
    for (number, (side, name)) in step.sides.iter().zip(&names).enumerate() {
        let y = rows - number as f64 - 0.5;
        let Spread { median, least: fast, most: slow, .. } = side.seconds;
        let [at, fast, slow] = [median, fast, slow].map(|value| value.clamp(LEAST_S, MOST_S));
        let color = match () {
            () if !is_competitor(&side.side) => MUTED,
            () if is_ours(&side.side) => OURS,
            () => THEIRS,
        };
        let spread = PathElement::new(vec![(fast, y), (slow, y)], color.stroke_width(2));
        chart.draw_series([spread])?;
        chart.draw_series([Circle::new((at, y), 5, color.filled())])?;
        let (left, middle) = chart.backend_coord(&(least, y));
        let (right, _) = chart.backend_coord(&(most, y));
        text(&area, name, (left - 8, middle), INK, Pos::new(HPos::Right, VPos::Center))?;
        let value = seconds(median);
        text(&area, &value, (right + 8, middle), INK, Pos::new(HPos::Left, VPos::Center))?;
    }
    drop(chart);
    area.present()?;
    Ok(())
}

fn text(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    color: RGBColor,
    pos: Pos,
) -> Result<(), Box<dyn Error>> {
    let style = TEXT.into_font().color(&color).pos(pos);
    area.draw(&Text::new(text.to_owned(), at, style))?;
    Ok(())
}

/// Returns the powers of ten around all values of a step, and room for the dots.
fn ends(step: &StepMedians) -> (f64, f64) {
    let values = || step.sides.iter().flat_map(|side| [side.seconds.least, side.seconds.most]);
    let least = values().fold(f64::INFINITY, f64::min).clamp(LEAST_S, MOST_S);
    let most = values().fold(0.0, f64::max).min(MOST_S).max(least);
    let (from, to) = (least.log10().floor(), most.log10().ceil());
    let to = if to > from { to } else { from + 1.0 };
    (10.0_f64.powf(from - 0.1), 10.0_f64.powf(to + 0.1))
}

/// Returns the powers of ten of an axis with their labels; of many every second or third has one.
fn ticks(least: f64, most: f64) -> Vec<(f64, String)> {
    let (from, to) = (least.log10().ceil() as i32, most.log10().floor() as i32);
    let each = (to - from) / 5 + 1;
    let label = |power: i32| match power {
        _ if (power - from) % each != 0 => String::new(),
        ..=-4 => format!("{} µs", 10_f64.powi(power + 6)),
        -3..=-1 => format!("{} ms", 10_f64.powi(power + 3)),
        _ => format!("{} s", 10_f64.powi(power)),
    };
    (from..=to).map(|power| (10_f64.powi(power), label(power))).collect()
}

/// Shortens a name to what a chart has room for.
fn short(name: &str) -> String {
    let mut chars = name.chars().map(printable);
    let mut short: String = chars.by_ref().take(CHART_NAME_LEN_MAX).collect();
    if chars.next().is_some() {
        short.pop();
        short.push('…');
    }
    short
}

/// Formats seconds with a unit and about three digits.
pub(super) fn seconds(value: f64) -> String {
    match value {
        _ if value >= 99.95 => format!("{value:.0} s"),
        _ if value >= 9.995 => format!("{value:.1} s"),
        _ if value >= 0.9995 => format!("{value:.2} s"),
        _ if value >= 0.099_95 => format!("{:.0} ms", value * 1e3),
        _ if value >= 0.009_995 => format!("{:.1} ms", value * 1e3),
        _ => format!("{:.2} ms", value * 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::super::medians::medians;
    use super::super::samples::Sample;
    use super::*;

    fn step(sides: &[(&str, f64)]) -> StepMedians {
        let sample = |&(side, seconds): &(&str, f64)| Sample {
            round: 1,
            side: side.to_owned(),
            step: "a <step>".into(),
            seconds,
            peak: None,
            size: None,
        };
        let samples: Vec<Sample> = sides.iter().map(sample).collect();
        medians(&samples).remove(0)
    }

    #[test]
    fn colours_are_variables_and_values_are_printed() {
        let sides = [("barid", 0.0021), ("c-client", 144.0), ("machine", 0.0)];
        let svg = chart(&step(&sides)).unwrap().unwrap();
        for part in ["2.10 ms", "144 s", "0.00 ms", "var(--ours)", "var(--theirs)", "var(--muted)"]
        {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(!svg.contains("\"#0"), "{svg}");
        assert!(svg.contains("aria-label=\"a &lt;step&gt;: barid 2.10 ms, "), "{svg}");
        assert_eq!(svg.matches("<circle ").count(), 3);
    }

    #[test]
    fn dots_stay_inside_whatever_the_values() {
        for value in [0.0, 1e-9, 0.001, 0.01, 1.0, 10.0, 1e12, f64::MAX] {
            let svg = chart(&step(&[("a", value), ("b", 0.5)])).unwrap().unwrap();
            let dots = svg.split("cx=\"").skip(1);
            let x = |rest: &str| rest.split('"').next().unwrap().parse::<u32>().unwrap();
            assert!(
                dots.map(x).all(|x| (20..=WIDTH - VALUES_WIDTH).contains(&x)),
                "{value}: {svg}"
            );
        }
    }

    #[test]
    fn an_axis_has_units() {
        let labels = |least, most| ticks(least, most).into_iter().map(|(_, label)| label);
        let all: Vec<_> = labels(0.0008, 1.1).collect();
        assert_eq!(all, ["1 ms", "10 ms", "100 ms", "1 s"]);
        assert_eq!(short("abcdefghijklmnopqrstuvwxyz"), "abcdefghijklmnopqrstuvwxyz");
        assert_eq!(short("abcdefghijklmnopqrstuvwxyzä"), "abcdefghijklmnopqrstuvwxy…");
    }
}
