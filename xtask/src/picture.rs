//! `cargo xtask picture`: the crates and the data flow as a picture, from the lists of
//! ARCHITECTURE.md.
//!
//! A crate stands above all crates that it uses. Thin lines are dependencies, less those that
//! follow from others; thick arrows with numbers are the steps of the data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, ensure};
use barid_testkit::{corpora, disk};

use crate::args::Args;
use crate::tidy::edges::{Edges, allowed, ticked};

/// Path of the picture in the repository.
const PICTURE: &str = "docs/architecture.svg";
/// Measures in pixels.
const WIDTH: f64 = 980.0;
const MARGIN: f64 = 24.0;
const BOX_HEIGHT: f64 = 34.0;
const LAYER_HEIGHT: f64 = 92.0;
const LETTER_WIDTH: f64 = 8.2;
const LINE_HEIGHT: f64 = 22.0;
/// Sweeps that move crates above what they use.
const SWEEPS: usize = 6;

const STYLE: &str = "\
:root { color-scheme: light dark }
.page { fill: #ffffff } text { font: 14px sans-serif; fill: #1f2328; text-anchor: middle }
.crate { fill: #f3f5f8; stroke: #57606a } .on-the-way { fill: #dcebff; stroke: #0550ae }
.edge { stroke: #b4bac2; fill: none } .step { stroke: #0550ae; stroke-width: 2.5; fill: none }
.number { fill: #0550ae } .digit { fill: #ffffff; font-weight: bold; font-size: 12px }
.tip { fill: #0550ae } .legend { text-anchor: start }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } text { fill: #e6edf3 } .crate { fill: #1c2128; stroke: #8b949e }
.on-the-way { fill: #10305c; stroke: #79b8ff } .edge { stroke: #484f58 }
.step { stroke: #79b8ff } .number, .tip { fill: #79b8ff } .digit { fill: #0d1117 } }
";

/// A step of the data: from a crate to a crate, and the thing that goes there.
struct Step {
    from: String,
    to: String,
    what: String,
}

/// The place of a crate: its middle and its top.
#[derive(Clone, Copy)]
struct Spot {
    x: f64,
    y: f64,
    width: f64,
}

pub(crate) fn run(args: Args) -> Result<()> {
    args.finish()?;
    let root = corpora::repository();
    disk::write(&root.join(PICTURE), drawn(&root)?.as_bytes())?;
    println!("{PICTURE}");
    Ok(())
}

/// Returns a problem if the picture is not that of the lists.
pub(crate) fn outdated(root: &Path) -> Result<Option<String>> {
    let path = root.join(PICTURE);
    let is_current = disk::exists(&path) && disk::read_text(&path)? == drawn(root)?;
    let problem = || format!("{PICTURE}: not what ARCHITECTURE.md says; cargo xtask picture");
    Ok((!is_current).then(problem))
}

fn drawn(root: &Path) -> Result<String> {
    let text = disk::read_text(&root.join("ARCHITECTURE.md"))?;
    let (edges, steps) = (reduced(&product(&allowed(&text), &text)), steps(&text));
    ensure!(!edges.is_empty() && !steps.is_empty(), "ARCHITECTURE.md: the lists are not there");
    for step in &steps {
        let are_crates = edges.contains_key(&step.from) && edges.contains_key(&step.to);
        ensure!(are_crates, "ARCHITECTURE.md: {} to {}: no such crates", step.from, step.to);
    }
    Ok(svg(&edges, &steps))
}

/// Drops the crates whose duty begins with "development".
fn product(edges: &Edges, text: &str) -> Edges {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let others = rows.filter(|(_, duty)| duty.starts_with("development"));
    let others: BTreeSet<&str> = others.map(|(name, _)| name).collect();
    let is_kept = |name: &String| !others.contains(name.as_str());
    let kept = edges.iter().filter(|(name, _)| is_kept(name));
    kept.map(|(name, used)| {
        (name.clone(), used.iter().filter(|name| is_kept(name)).cloned().collect())
    })
    .collect()
}

/// Drops edges that follow from others.
fn reduced(edges: &Edges) -> Edges {
    let reaches = |from: &str, to: &String| {
        let (mut open, mut seen) = (vec![from], BTreeSet::new());
        while let Some(name) = open.pop() {
            if seen.insert(name) {
                open.extend(edges.get(name).into_iter().flatten().map(String::as_str));
            }
        }
        seen.contains(to.as_str())
    };
    let direct = |used: &BTreeSet<String>| {
        let follows = |to: &String| used.iter().any(|other| other != to && reaches(other, to));
        used.iter().filter(|to| !follows(to)).cloned().collect()
    };
    edges.iter().map(|(name, used)| (name.clone(), direct(used))).collect()
}

/// Parses the list under `## Data flow`: lines of "1. `crate` to `crate`: text".
fn steps(text: &str) -> Vec<Step> {
    let section = text.split("\n## Data flow").nth(1).unwrap_or_default();
    let lines = section.split("\n## ").next().unwrap_or_default().lines();
    let step = |line: &str| {
        let (crates, what) = line.split_once(". ")?.1.split_once(": ")?;
        let mut names = ticked(crates);
        let (from, to) = (names.next()?, names.next()?);
        Some(Step { from, to, what: what.replace('`', "") })
    };
    lines.filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).filter_map(step).collect()
}

/// Returns the crates of each layer, the lowest first.
fn layers(edges: &Edges) -> Vec<Vec<String>> {
    let mut layer_of: BTreeMap<&str, usize> = BTreeMap::new();
    // Each round settles at least one layer, because the edges have no circle.
    for _ in 0..edges.len() {
        for (name, used) in edges {
            let below = used.iter().filter_map(|name| layer_of.get(name.as_str()));
            let layer = below.max().map_or(0, |layer| layer + 1);
            layer_of.insert(name, layer);
        }
    }
    let mut layers = vec![Vec::new(); layer_of.values().max().map_or(0, |layer| layer + 1)];
    layer_of.into_iter().for_each(|(name, layer)| layers[layer].push(name.to_owned()));
    layers
}

/// Places the crates: each near those that it uses and that use it.
fn spots(edges: &Edges) -> BTreeMap<String, Spot> {
    let mut layers = layers(edges);
    let mut spots = BTreeMap::new();
    let height = layers.len() as f64 * LAYER_HEIGHT;
    for sweep in 0..SWEEPS {
        for (number, layer) in layers.iter_mut().enumerate() {
            if sweep > 0 {
                let wanted: BTreeMap<String, f64> = layer
                    .iter()
                    .map(|name| (name.clone(), middle_of_neighbours(name, edges, &spots)))
                    .collect();
                layer.sort_by(|one, other| wanted[one].total_cmp(&wanted[other]));
            }
            let width = |name: &String| name.len() as f64 * LETTER_WIDTH + 18.0;
            let used: f64 = layer.iter().map(width).sum();
            let gap = (WIDTH - 2.0 * MARGIN - used) / (layer.len() + 1) as f64;
            let mut x = MARGIN + gap;
            for name in layer {
                let y = height - (number + 1) as f64 * LAYER_HEIGHT + MARGIN;
                spots
                    .insert(name.clone(), Spot { x: x + width(name) / 2.0, y, width: width(name) });
                x += width(name) + gap;
            }
        }
    }
    spots
}

fn middle_of_neighbours(name: &String, edges: &Edges, spots: &BTreeMap<String, Spot>) -> f64 {
    let users = edges.iter().filter(|(_, used)| used.contains(name)).map(|(user, _)| user);
    let near: Vec<f64> = edges[name].iter().chain(users).map(|name| spots[name].x).collect();
    if near.is_empty() { spots[name].x } else { near.iter().sum::<f64>() / near.len() as f64 }
}

fn svg(edges: &Edges, steps: &[Step]) -> String {
    let spots = spots(edges);
    let lowest = spots.values().map(|spot| spot.y).fold(0.0, f64::max) + BOX_HEIGHT;
    let legend_top = lowest + MARGIN * 1.5;
    let height = legend_top + steps.len() as f64 * LINE_HEIGHT + MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
         <title>The crates of barid and its data flow</title>\n<style>\n{STYLE}</style>\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" \
         markerHeight=\"6\" orient=\"auto\"><path class=\"tip\" d=\"M0 0L8 4L0 8Z\"/></marker></defs>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (name, used) in edges {
        for other in used {
            let path = Curve::new(spots[name], spots[other], 0.0).path();
            out += &format!("<path class=\"edge\" d=\"{path}\"/>\n");
        }
    }
    // Every second arrow is moved aside, so that those to and fro are apart.
    let shift = |number: usize| if number.is_multiple_of(2) { 14.0 } else { -14.0 };
    let curves = steps
        .iter()
        .enumerate()
        .map(|(number, step)| Curve::new(spots[&step.from], spots[&step.to], shift(number)));
    let curves: Vec<Curve> = curves.collect();
    for curve in &curves {
        let path = curve.path();
        out += &format!("<path class=\"step\" marker-end=\"url(#tip)\" d=\"{path}\"/>\n");
    }
    let on_the_way: BTreeSet<_> = steps.iter().flat_map(|step| [&step.from, &step.to]).collect();
    for (name, spot) in &spots {
        draw_crate(&mut out, name, *spot, on_the_way.contains(name));
    }
    for (number, (step, curve)) in steps.iter().zip(&curves).enumerate() {
        draw_number(&mut out, number + 1, curve.near_start());
        let y = legend_top + number as f64 * LINE_HEIGHT;
        draw_number(&mut out, number + 1, (MARGIN + 9.0, y));
        let (x, y, Step { from, to, what }) = (MARGIN + 28.0, y + 5.0, step);
        out += &format!(
            "<text class=\"legend\" x=\"{x}\" y=\"{y:.0}\">{from} to {to}: {what}</text>\n"
        );
    }
    out.push_str("</svg>\n");
    out
}

fn draw_crate(out: &mut String, name: &str, spot: Spot, is_on_the_way: bool) {
    let class = if is_on_the_way { "crate on-the-way" } else { "crate" };
    let (x, y, width) = (spot.x - spot.width / 2.0, spot.y, spot.width);
    let (middle, base) = (spot.x, y + BOX_HEIGHT / 2.0 + 5.0);
    *out += &format!(
        "<rect class=\"{class}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" \
         height=\"{BOX_HEIGHT}\" rx=\"6\"/><text x=\"{middle:.0}\" y=\"{base:.0}\">{name}</text>\n"
    );
}

fn draw_number(out: &mut String, number: usize, (x, y): (f64, f64)) {
    let base = y + 4.0;
    *out += &format!(
        "<circle class=\"number\" cx=\"{x:.0}\" cy=\"{y:.0}\" r=\"9\"/>\
         <text class=\"digit\" x=\"{x:.0}\" y=\"{base:.0}\">{number}</text>\n"
    );
}

/// A curve from the edge of one box to that of another: upright at both ends.
struct Curve {
    from: (f64, f64),
    to: (f64, f64),
}

impl Curve {
    fn new(from: Spot, to: Spot, shift: f64) -> Self {
        let (start, end) = match from.y < to.y {
            true => (from.y + BOX_HEIGHT, to.y),
            false => (from.y, to.y + BOX_HEIGHT),
        };
        Self { from: (from.x + shift, start), to: (to.x + shift, end) }
    }

    fn path(&self) -> String {
        let ((x1, y1), (x2, y2)) = (self.from, self.to);
        let y = (y1 + y2) / 2.0;
        format!("M{x1:.0} {y1:.0}C{x1:.0} {y:.0} {x2:.0} {y:.0} {x2:.0} {y2:.0}")
    }

    /// Returns the point half of the way from the first box to the next layer.
    fn near_start(&self) -> (f64, f64) {
        let ((x1, y1), (x2, y2)) = (self.from, self.to);
        let y = (y1 + y2) / 2.0;
        let at = |t: f64| {
            let parts = [
                (1.0 - t).powi(3),
                3.0 * t * (1.0 - t).powi(2),
                3.0 * t * t * (1.0 - t),
                t.powi(3),
            ];
            let sum = |points: [f64; 4]| parts.iter().zip(points).map(|(part, at)| part * at).sum();
            (sum([x1, x1, x2, x2]), sum([y1, y, y, y2]))
        };
        let wanted = (LAYER_HEIGHT - BOX_HEIGHT) / 2.0;
        let mut points = (0..=64).map(|step| at(f64::from(step) / 64.0));
        points.find(|point: &(f64, f64)| (point.1 - y1).abs() >= wanted).unwrap_or(self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# X\n\n## Data flow\n\n1. `a` to `b`: bytes of `b`\n\n## Crates\n\n\
        | `a` | the first |\n| `d` | development: x |\n\n## Allowed edges\n\n- `a`: nothing\n\
        - `b`: `a`\n- `c`: `a`, `b`\n- `d`: `c`\n";

    #[test]
    fn the_lists_become_layers_and_steps() {
        let edges = reduced(&product(&allowed(TEXT), TEXT));
        assert_eq!(layers(&edges), [["a"], ["b"], ["c"]]);
        assert_eq!(edges["c"].iter().collect::<Vec<_>>(), ["b"]);
        let steps = steps(TEXT);
        assert_eq!(steps.len(), 1);
        assert_eq!((&*steps[0].from, &*steps[0].to, &*steps[0].what), ("a", "b", "bytes of b"));
        let svg = svg(&edges, &steps);
        assert_eq!(svg.matches("class=\"edge\"").count(), 2);
        assert_eq!(svg.matches("class=\"step\"").count(), 1);
    }
}
