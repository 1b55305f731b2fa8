//! The ROC curve as SVG: the share of spam that is found by the share of ham classified as spam.

use std::fmt::{self, Write as _};

use barid_spam::{Point, Tuned};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 600.0;
/// The edges of the area of the curves.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 880.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 540.0;
/// Length of a line in the legend.
const KEY_LEN: f64 = 20.0;
/// Number of parts into which the axis of found spam is divided.
const PARTS: u32 = 5;
/// Colours that colour-blind people can distinguish (after Okabe and Ito).
const NOW: &str = "#5a6570";
const RECOMMENDED: &str = "#0072b2";

/// Returns the SVG file. False positives are on a logarithmic scale that starts below one message.
pub(super) fn svg(tuned: &Tuned) -> String {
    let lines = [
        ("now", NOW, rates(tuned, &tuned.now.curve)),
        ("recommended", RECOMMENDED, rates(tuned, &tuned.recommended.curve)),
    ];
    let shown = lines.iter().flat_map(|(.., points)| points.iter().map(|(_, found)| *found));
    // The axis starts near the lowest rate, found without false positives; other rates are near 1.
    let least = (shown.fold(1.0, f64::min) * 20.0).floor() / 20.0;
    let scale = Scale { from: floor(tuned), least: least.min(0.95) };
    let mut svg = String::new();
    put(
        &mut svg,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\" \
             role=\"img\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
        ),
    );
    let title = format!("{} spam, {} ham", tuned.tested.spam, tuned.tested.ham);
    text(&mut svg, (WIDTH / 2.0, 30.0), "text-anchor=\"middle\" font-size=\"20\"", &title);
    scale.draw(&mut svg);
    for (number, (name, color, points)) in lines.iter().enumerate() {
        let points = points.iter().map(|(at, found)| (scale.x(*at), scale.y(*found)));
        polyline(&mut svg, color, points);
        let y = BOTTOM - 40.0 + 20.0 * number as f64;
        let x = RIGHT - 130.0;
        polyline(&mut svg, color, [(x, y), (x + KEY_LEN, y)].into_iter());
        text(&mut svg, (x + KEY_LEN + 8.0, y + 4.0), "", name);
    }
    svg.push_str("</svg>\n");
    svg
}

/// The axes: from these rates to 1.
struct Scale {
    /// Lowest share of ham that is classified as spam.
    from: f64,
    /// Lowest share of spam that is found.
    least: f64,
}

impl Scale {
    fn x(&self, rate: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (1.0 - rate.ln() / self.from.ln())
    }

    fn y(&self, rate: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (rate - self.least) / (1.0 - self.least)
    }

    /// Draws the axes with their ticks: powers of ten, and even parts.
    fn draw(&self, svg: &mut String) {
        const LINE: &str = "stroke=\"#ccc\" fill=\"none\"";
        let powers = std::iter::successors(Some(1.0), |tick| Some(tick / 10.0));
        for tick in powers.take_while(|tick| *tick >= self.from) {
            let x = self.x(tick);
            put(svg, format_args!("<path d=\"M{x:.1} {TOP}V{BOTTOM}\" {LINE}/>"));
            text(svg, (x, BOTTOM + 18.0), "text-anchor=\"middle\"", &tick.to_string());
        }
        for part in 0..=PARTS {
            let tick = self.least + (1.0 - self.least) * f64::from(part) / f64::from(PARTS);
            let y = self.y(tick);
            put(svg, format_args!("<path d=\"M{LEFT} {y:.1}H{RIGHT}\" {LINE}/>"));
            text(svg, (LEFT - 8.0, y + 4.0), "text-anchor=\"end\"", &format!("{tick:.3}"));
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        let name = "share of ham that is taken for spam";
        text(svg, (middle, HEIGHT - 16.0), "text-anchor=\"middle\"", name);
        let middle = f64::midpoint(TOP, BOTTOM);
        let upright = format!("text-anchor=\"middle\" transform=\"rotate(-90 20 {middle})\"");
        text(svg, (20.0, middle), &upright, "share of spam that is found");
    }
}

fn polyline(svg: &mut String, color: &str, points: impl Iterator<Item = (f64, f64)>) {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    put(
        svg,
        format_args!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>"
        ),
    );
}

/// Adds a text without characters that XML reserves.
fn text(svg: &mut String, (x, y): (f64, f64), attributes: &str, text: &str) {
    put(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>"));
}

fn put(svg: &mut String, line: fmt::Arguments<'_>) {
    writeln!(svg, "{line}").expect("because writing to a string does not fail");
}

/// Returns the start of the axis of false positives: half a message.
fn floor(tuned: &Tuned) -> f64 {
    0.5 / f64::from(tuned.tested.ham.max(1))
}

/// Returns the points of the curve, with steps: the rate is constant up to the next cut-off.
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
