//! Bar charts as SVG: a group of horizontal bars for each label, a colour for each series.
//!
//! Bars are horizontal so that every label is readable and any number of groups fits: a chart grows
//! downwards.

use std::fmt::Write;

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// The unit of the axis.
    pub(crate) unit: &'static str,
    /// The names of the series, one for each colour.
    pub(crate) series: Vec<String>,
    /// Explanation of pale bars, if there are any.
    pub(crate) pale: Option<String>,
    pub(crate) groups: Vec<Group>,
}

/// A group of bars with one label.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) label: String,
    pub(crate) bars: Vec<Bar>,
}

/// A bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bar {
    /// Index of the series.
    pub(crate) series: usize,
    /// `true` if drawn pale: the other system's bar.
    pub(crate) is_pale: bool,
    pub(crate) value: f64,
    /// The ends of the line that shows the spread.
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// Colours that colour-blind people can distinguish (after Okabe and Ito).
const COLORS: [&str; 6] = ["#5a6570", "#0072b2", "#009e73", "#d55e00", "#9b59b6", "#b8860b"];
const WIDTH: f64 = 900.0;
const LABELS_WIDTH: f64 = 150.0;
const VALUES_WIDTH: f64 = 70.0;
const BAR_HEIGHT: f64 = 11.0;
const BAR_GAP: f64 = 2.0;
const GROUP_GAP: f64 = 12.0;
const HEAD_HEIGHT: f64 = 92.0;
const FOOT_HEIGHT: f64 = 44.0;

impl Chart {
    /// Returns the chart as an SVG file.
    pub(crate) fn svg(&self) -> String {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        let axis = Axis::to(bars().map(|bar| bar.value.max(bar.most)).fold(0.0, f64::max));
        let body: f64 = self.groups.iter().map(Group::height).sum();
        let height = HEAD_HEIGHT + body + FOOT_HEIGHT;
        let mut svg = Svg::default();
        svg.line(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" \
             font-size=\"12\" fill=\"#222\" role=\"img\">"
        ));
        svg.line(format_args!("<title>{}</title>", escaped(&self.title)));
        svg.line(format_args!("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"));
        svg.text(16.0, 26.0, "font-size=\"17\" font-weight=\"bold\"", &self.title);
        svg.text(16.0, 45.0, "fill=\"#666\"", &self.subtitle);
        self.legend(&mut svg);
        self.grid(&mut svg, &axis, HEAD_HEIGHT + body);
        let mut y = HEAD_HEIGHT;
        for group in &self.groups {
            group.draw(&mut svg, &axis, y);
            y += group.height();
        }
        svg.line(format_args!("</svg>"));
        svg.text
    }

    fn legend(&self, svg: &mut Svg) {
        let mut x = 16.0;
        for (series, name) in self.series.iter().enumerate() {
            svg.rect((x, 60.0, 12.0, 12.0), series, false);
            svg.text(x + 17.0, 70.0, "", name);
            x += 17.0 + name.chars().count() as f64 * 7.0 + 20.0;
        }
        if let Some(pale) = &self.pale {
            svg.rect((x, 60.0, 12.0, 12.0), 0, true);
            svg.text(x + 17.0, 70.0, "", pale);
        }
    }

    fn grid(&self, svg: &mut Svg, axis: &Axis, bottom: f64) {
        for tick in axis.ticks() {
            let (x, top) = (axis.x(tick), HEAD_HEIGHT - 4.0);
            svg.line(format_args!(
                "<path d=\"M{x:.1} {top}V{bottom:.1}\" stroke=\"#ddd\" fill=\"none\"/>"
            ));
            svg.text(x, bottom + 16.0, "text-anchor=\"middle\" fill=\"#666\"", &axis.label(tick));
        }
        let middle = f64::midpoint(axis.x(0.0), axis.x(axis.top));
        svg.text(middle, bottom + 34.0, "text-anchor=\"middle\" fill=\"#666\"", self.unit);
    }
}

impl Group {
    fn height(&self) -> f64 {
        self.bars.len() as f64 * (BAR_HEIGHT + BAR_GAP) + GROUP_GAP
    }

    fn draw(&self, svg: &mut Svg, axis: &Axis, top: f64) {
        let left = axis.x(0.0);
        let middle = top + (self.height() - GROUP_GAP) / 2.0 + 4.0;
        svg.text(left - 8.0, middle, "text-anchor=\"end\"", &self.label);
        for (number, bar) in self.bars.iter().enumerate() {
            let y = top + number as f64 * (BAR_HEIGHT + BAR_GAP);
            let width = (axis.x(bar.value) - left).max(1.0);
            svg.rect((left, y, width, BAR_HEIGHT), bar.series, bar.is_pale);
            let centre = y + BAR_HEIGHT / 2.0;
            if bar.most > bar.least {
                let (least, most) = (axis.x(bar.least), axis.x(bar.most));
                svg.line(format_args!(
                    "<path d=\"M{least:.1} {centre}H{most:.1}\" stroke=\"#222\" fill=\"none\"/>"
                ));
            }
            let x = axis.x(bar.value.max(bar.most)) + 4.0;
            svg.text(x, centre + 3.5, "font-size=\"10\" fill=\"#444\"", &number_text(bar.value));
        }
    }
}

/// An axis from 0 to a round number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    step: f64,
    top: f64,
}

impl Axis {
    /// Returns the axis for values up to `most`, with four to nine steps of 1, 2 or 5 times a power
    /// of ten.
    fn to(most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        let magnitude = 10.0_f64.powf((most / 4.0).log10().floor());
        let fits = |factor: &f64| most / (factor * magnitude) <= 9.0;
        let factor = [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0);
        let step = factor * magnitude;
        Self { step, top: (most / step).ceil() * step }
    }

    fn x(&self, value: f64) -> f64 {
        LABELS_WIDTH + value / self.top * (WIDTH - LABELS_WIDTH - VALUES_WIDTH)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = (self.top / self.step).round() as u32;
        let step = self.step;
        (0..=count).map(move |number| f64::from(number) * step)
    }

    fn label(&self, tick: f64) -> String {
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        format!("{tick:.decimals$}")
    }
}

/// Formats a value with about three significant digits.
fn number_text(value: f64) -> String {
    match value {
        _ if value < 0.00995 => format!("{value:.5}"),
        _ if value < 0.0995 => format!("{value:.4}"),
        _ if value < 0.995 => format!("{value:.3}"),
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The file being written.
#[derive(Debug, Default)]
struct Svg {
    text: String,
}

impl Svg {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("because writing to a string does not fail");
    }

    fn text(&mut self, x: f64, y: f64, attributes: &str, text: &str) {
        let text = escaped(text);
        self.line(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>"));
    }

    fn rect(&mut self, place: (f64, f64, f64, f64), series: usize, is_pale: bool) {
        let (x, y, width, height) = place;
        let color = COLORS[series % COLORS.len()];
        let pale = if is_pale { " fill-opacity=\"0.22\"" } else { "" };
        self.line(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" \
             fill=\"{color}\" stroke=\"{color}\" stroke-width=\"0.7\"{pale}/>"
        ));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        let check = |most: f64, step: f64, top: f64| {
            let axis = Axis::to(most);
            assert!((axis.step - step).abs() < 1e-9 && (axis.top - top).abs() < 1e-9, "{axis:?}");
            assert!(axis.ticks().count() <= 10);
        };
        check(7.3, 1.0, 8.0);
        check(0.97, 0.2, 1.0);
        check(40.63, 10.0, 50.0);
        check(222.0, 50.0, 250.0);
        check(0.0, 0.2, 1.0);
        check(1.0, 0.2, 1.0);
        assert_eq!(Axis::to(0.97).label(0.2 * 3.0), "0.6");
        assert_eq!(Axis::to(222.0).label(50.0), "50");
    }

    #[test]
    fn values_have_three_digits() {
        let check = |value, expected: &str| assert_eq!(number_text(value), expected);
        check(0.001_23, "0.00123");
        check(0.0273, "0.0273");
        check(0.2842, "0.284");
        check(0.9999, "1.00");
        check(28.42, "28.4");
        check(4321.0, "4321");
    }

    #[test]
    fn a_chart_is_well_formed() {
        let bar =
            |series, is_pale, value| Bar { series, is_pale, value, least: value, most: value };
        let chart = Chart {
            title: "a <b> & c".into(),
            subtitle: String::new(),
            unit: "seconds",
            series: vec!["none".into(), "zstd".into()],
            pale: Some("pale".into()),
            groups: vec![
                Group { label: "lmdb".into(), bars: vec![bar(0, false, 1.0), bar(0, true, 2.0)] },
                Group { label: "qdbm".into(), bars: vec![bar(1, false, 0.05)] },
            ],
        };
        let svg = chart.svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("<title>a &lt;b&gt; &amp; c</title>"));
        // A background, three bars, and a square for each of three entries of the legend.
        assert_eq!(svg.matches("<rect ").count(), 7);
        assert_eq!(svg.matches("<text ").count(), svg.matches("</text>").count());
        assert!(svg.contains(">0.0500</text>") && svg.contains(">lmdb</text>"));
        let full = format!("width=\"{:.1}\"", WIDTH - LABELS_WIDTH - VALUES_WIDTH);
        assert_eq!(svg.matches(&full).count(), 1, "{svg}");
    }
}
