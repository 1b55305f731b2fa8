//! The page.

use anyhow::Result;

use super::chart::{chart, seconds};
use super::html::{Html, escaped};
use super::markdown::MarkdownTable;
use super::medians::{SideMedians, StepMedians, is_ours};
use super::published::PublishedFigure;
use super::run_folder::{BenchSection, Measurements, RunFolder, SECTIONS};
use crate::lab::{Ratio, Spread};

const STYLE: &str = include_str!("style.css");
/// A table of medians with more rows is folded away.
const OPEN_ROWS_MAX: usize = 40;

const HOW_TO_READ: &str = "\
In a chart a dot is a median and the line through it goes from the least to the most of all rounds. \
Axes are logarithmic: from one line to the next it is ten times, so a side that is a hundred times \
slower does not flatten the others, and distance is a ratio. Every value is printed beside its dot.";

/// Returns the page of some runs, the newest of each bench first.
pub(super) fn render(runs: &[RunFolder], published: &[PublishedFigure]) -> Result<String> {
    let mut html = Html::default();
    html.line(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>"
    ));
    html.line(format_args!(
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
    ));
    html.line(format_args!("<meta name=\"color-scheme\" content=\"light dark\"/>"));
    html.line(format_args!("<title>barid: benchmark runs</title>\n<style>\n{STYLE}</style>"));
    html.line(format_args!("</head>\n<body>\n<main>\n<h1>barid: benchmark runs</h1>"));
    overview(&mut html, runs);
    missed(&mut html, runs);
    for section in SECTIONS {
        let own: Vec<&RunFolder> =
            runs.iter().rev().filter(|run| run.bench == section.name).collect();
        if own.is_empty() {
            continue;
        }
        html.line(format_args!("<h2 id=\"{}\">{}</h2>", anchor(section), section.title));
        beside(&mut html, section, published, &own);
        for run in own {
            run_section(&mut html, run)?;
        }
    }
    html.line(format_args!("</main>\n</body>\n</html>"));
    Ok(html.text)
}

fn anchor(section: BenchSection) -> &'static str {
    if section.name.is_empty() { "other" } else { section.name }
}

/// Adds what the page shows, and a table of all runs.
fn overview(html: &mut Html, runs: &[RunFolder]) {
    let mut table = table(1, &["run", "passed", "missed", "fastest", "bench"]);
    for run in runs {
        let bars = run.bars();
        let passed = bars.iter().filter(|bar| bar.is_passed).count();
        let steps = || run.measurements.iter().flat_map(|measured| &measured.steps);
        let compared = || steps().filter(|step| is_comparison(step));
        let wins = compared().filter(|step| step.fastest().is_some_and(|side| is_ours(&side.side)));
        let fastest = match (wins.count(), compared().count()) {
            (_, 0) => "no peer".to_owned(),
            (wins, all) => format!("in {wins} of {all} steps"),
        };
        let counts = [passed, bars.len() - passed].map(|count| count.to_string());
        let [passed, missed] = counts;
        table.rows.push(vec![run.name.clone(), passed, missed, fastest, run.bench.to_owned()]);
    }
    table.is_right = vec![false, true, true, false, false];
    html.element("p", HOW_TO_READ);
    html.line(format_args!(
        "<p class=\"key\"><span class=\"dot ours\"></span> barid <span class=\"dot theirs\"></span> \
         another program <span class=\"dot bare\"></span> the bare work of the machine</p>"
    ));
    html.line(format_args!("<nav>"));
    for section in SECTIONS {
        if runs.iter().any(|run| run.bench == section.name) {
            html.line(format_args!("<a href=\"#{}\">{}</a>", anchor(section), section.title));
        }
    }
    html.line(format_args!("</nav>\n<h2>All runs</h2>"));
    html.element(
        "p",
        "Passed and missed are the bars that barid is to reach. A run counts as fastest in a step if \
         barid's median is the least of all sides; steps that only barid does are left out.",
    );
    html.table(&table);
}

/// Returns `true` for a step that both barid and others did.
fn is_comparison(step: &StepMedians) -> bool {
    let ours = step.sides.iter().filter(|side| is_ours(&side.side)).count();
    step.fastest().is_some() && ours > 0 && ours < step.sides.len()
}

/// Adds a table of all bars that were missed.
fn missed(html: &mut Html, runs: &[RunFolder]) {
    let mut table = table(4, &["work", "bar", "measured", "run"]);
    for run in runs {
        for bar in run.bars().into_iter().filter(|bar| !bar.is_passed) {
            table.rows.push(vec![bar.name, bar.bar, bar.measured, run.name.clone()]);
        }
    }
    html.line(format_args!("<h2>Missed bars</h2>"));
    if table.rows.is_empty() {
        html.element("p", "No bar was missed.");
    } else {
        html.table(&table);
    }
}

/// Adds the published figures of a bench, beside the newest runs that did the same work.
fn beside(
    html: &mut Html,
    section: BenchSection,
    published: &[PublishedFigure],
    runs: &[&RunFolder],
) {
    let own = || published.iter().filter(|figure| figure.bench == section.name);
    let mut reports: Vec<&str> = own().map(|figure| figure.report.as_str()).collect();
    reports.dedup();
    if reports.is_empty() {
        return;
    }
    html.line(format_args!("<h3>Published figures, and the same work here</h3>"));
    html.element(
        "p",
        "Times of another machine, another year and other mail: the ratios between systems can be \
         compared, the times cannot. Here: medians of the newest run in which the \
         same sides did the step.",
    );
    for report in reports {
        let mut table = table(4, &["work", "system", "published", "here"]);
        for figure in own().filter(|figure| figure.report == report) {
            let PublishedFigure { work, system, value, .. } = figure;
            let cells = [work, system, value].map(String::clone);
            table.rows.push(cells.into_iter().chain([here(figure, runs)]).collect());
        }
        table.is_right = vec![false, false, true, false];
        html.line(format_args!("<h4>{}</h4>", escaped(report)));
        if table.rows.len() > OPEN_ROWS_MAX {
            html.folded(&format!("{} figures", table.rows.len()), |html| html.table(&table));
        } else {
            html.table(&table);
        }
    }
}

/// Returns what stands beside a published figure.
fn here(figure: &PublishedFigure, runs: &[&RunFolder]) -> String {
    let steps = || {
        let steps = runs.iter().flat_map(|run| &run.measurements).flat_map(|file| &file.steps);
        steps.filter(|step| step.step == figure.step)
    };
    let is_there = |step: &StepMedians, side: &String| step.side(side).is_some();
    // A run with all sides is a fairer comparison than a newer one with some of them.
    let has_all = |step: &&StepMedians| figure.sides.iter().all(|side| is_there(step, side));
    let has_some = |step: &&StepMedians| figure.sides.iter().any(|side| is_there(step, side));
    let Some(step) = steps().find(has_all).or_else(|| steps().find(has_some)) else {
        return String::new();
    };
    let text = |name: &String| {
        let side = step.side(name)?;
        let value = match figure.quantity.as_str() {
            "seconds" => seconds(side.seconds.median),
            "peak" => megabytes(side.peak),
            "size" => megabytes(side.size),
            _ => return None,
        };
        Some(format!("{name} {value}"))
    };
    figure.sides.iter().filter_map(text).collect::<Vec<_>>().join("; ")
}

/// Adds a run: what it is, its bars, charts and medians, then everything else it left.
fn run_section(html: &mut Html, run: &RunFolder) -> Result<()> {
    html.line(format_args!("<section><h3>{}</h3>", escaped(&run.name)));
    html.folded("How it was run", |html| html.blocks(&run.about, 3));
    bars(html, run);
    for measured in &run.measurements {
        measurements(html, measured)?;
    }
    for (file, blocks) in &run.documents {
        html.folded(&format!("All of `{file}`"), |html| html.blocks(blocks, 3));
    }
    for Measurements { file, raw, .. } in &run.measurements {
        if let Some(raw) = raw {
            let runs = raw.rows.len();
            html.folded(&format!("Every single run: `{file}`, {runs} rows"), |html| {
                html.table(raw)
            });
        }
    }
    html.line(format_args!("</section>"));
    Ok(())
}

fn bars(html: &mut Html, run: &RunFolder) {
    let bars = run.bars();
    if bars.is_empty() {
        return;
    }
    let passed = bars.iter().filter(|bar| bar.is_passed).count();
    let missed = bars.len() - passed;
    html.line(format_args!("<h4>Bars: {passed} passed, {missed} missed</h4>"));
    let mut table = table(4, &["", "work", "bar", "measured"]);
    for bar in bars {
        let verdict = if bar.is_passed { "pass" } else { "MISS" }.to_owned();
        table.rows.push(vec![verdict, bar.name, bar.bar, bar.measured]);
    }
    if table.rows.len() > OPEN_ROWS_MAX {
        html.folded(&format!("{} bars", table.rows.len()), |html| html.table(&table));
    } else {
        html.table(&table);
    }
}

/// Adds charts and medians of a file.
fn measurements(html: &mut Html, measured: &Measurements) -> Result<()> {
    if measured.steps.is_empty() {
        return Ok(());
    }
    html.line(format_args!("<h4>Real time, from {}</h4>", escaped(&measured.file)));
    html.line(format_args!("<div class=\"charts\">"));
    for step in &measured.steps {
        if let Some(svg) = chart(step)? {
            let name = escaped(&step.step);
            html.line(format_args!("<figure><figcaption>{name}</figcaption>{svg}</figure>"));
        }
    }
    html.line(format_args!("</div>"));
    let table = medians_table(&measured.steps);
    let summary = format!("Medians, spread and who is fastest: {} rows", table.rows.len());
    if table.rows.len() > OPEN_ROWS_MAX {
        html.folded(&summary, |html| html.table(&table));
    } else {
        html.table(&table);
    }
    Ok(())
}

fn medians_table(steps: &[StepMedians]) -> MarkdownTable {
    const HEAD: [&str; 9] =
        ["step", "side", "median", "least", "most", "runs", "to the fastest", "peak", "size"];
    let mut table = table(2, &HEAD);
    for step in steps {
        let fastest = step.fastest();
        for side in &step.sides {
            let SideMedians { side: name, runs, seconds: times, peak, size } = side;
            let to_fastest = match fastest {
                Some(best) if best.side == *name => "**fastest**".to_owned(),
                Some(best) => times_of(times, &best.seconds),
                None => String::new(),
            };
            table.rows.push(vec![
                step.step.clone(),
                name.clone(),
                seconds(times.median),
                seconds(times.least),
                seconds(times.most),
                runs.to_string(),
                to_fastest,
                megabytes(*peak),
                megabytes(*size),
            ]);
        }
    }
    table
}

/// Returns by how much a side is slower than the fastest.
fn times_of(times: &Spread, fastest: &Spread) -> String {
    let ratio = Ratio::of(&[times.median], &[fastest.median]);
    ratio.map_or_else(String::new, |ratio| match ratio.ratio {
        ratio if ratio >= 99.95 => format!("{ratio:.0} times"),
        ratio if ratio >= 9.95 => format!("{ratio:.1} times"),
        ratio => format!("{ratio:.2} times"),
    })
}

fn megabytes(bytes: Option<Spread>) -> String {
    match bytes.map(|bytes| bytes.median / 1e6) {
        None => String::new(),
        Some(0.0) => "0 MB".to_owned(),
        Some(megabytes) => format!("{megabytes:.1} MB"),
    }
}

/// Returns an empty table whose first `words` columns are words, the others numbers.
fn table(words: usize, head: &[&str]) -> MarkdownTable {
    let is_right = (0..head.len()).map(|column| column >= words).collect();
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    MarkdownTable { head, is_right, rows: Vec::new() }
}
