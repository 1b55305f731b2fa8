//! The files that the bench writes.

use anyhow::Result;
use serde::Serialize;

use super::bars::{self, cpu};
use super::results::{Results, Run};
use super::step::{Side, Step, Work};
use crate::lab::{
    self, Bar, CSV_HEAD, Column, Figures, Reported, Section, Spread, Table, csv, megabytes,
};

/// The version of the JSON lines.
const VERSION: u32 = 1;

/// The columns of the table of details that only this bench has.
const COLUMNS: [Column; 2] = [
    Column::median("PSS MB", 1, |f| megabytes(f.pss_bytes)),
    Column::median("answer MB", 2, |f| megabytes(f.answer_bytes)),
];

impl Reported for Results {
    const TITLE: &'static str = "An IMAP server";

    fn raw(&self) -> String {
        let head = format!("round,side,step,{CSV_HEAD},pss_bytes,answer_bytes\n");
        let line = |Run { round, side, step, figures: f }: &Run| {
            let (common, pss, answer) = (csv(f), f.pss_bytes, f.answer_bytes);
            format!("{round},{side},{step},{common},{pss},{answer}\n")
        };
        std::iter::once(head).chain(self.runs.iter().map(line)).collect()
    }

    fn bars(&self) -> Vec<Bar> {
        bars::bars(self)
    }

    fn sections(&self) -> Vec<Section> {
        vec![
            Section::new("CPU time of the server, and real time", TIMES, times(self)),
            Section::new("barid to Dovecot", RATIOS, ratios(self)),
            Section::new("Everything else", DETAILS, details(self)).only_on_page(),
        ]
    }

    fn json_lines(&self) -> Result<Vec<String>> {
        #[derive(Serialize)]
        struct Line {
            v: u32,
            r#type: &'static str,
            side: Side,
            step: Step,
            runs: usize,
            real_s: Spread,
            cpu_s: Spread,
            pss_bytes: Spread,
            answer_bytes: Spread,
        }
        let lines = self.measured().into_iter().filter_map(|(step, side, measured)| {
            Some(Line {
                v: VERSION,
                r#type: "bench_imap",
                side,
                step,
                runs: measured.len(),
                real_s: measured.spread(|f| f.real_s)?,
                cpu_s: measured.spread(cpu)?,
                pss_bytes: measured.spread(|f| f.pss_bytes as f64)?,
                answer_bytes: measured.spread(|f| f.answer_bytes as f64)?,
            })
        });
        lab::json_lines(lines)
    }
}

/// Returns a figure in milliseconds, or memory in megabytes, with its spread.
fn spread(results: &Results, side: Side, step: Step, figure: fn(&Figures) -> f64) -> String {
    let digits = |value: f64| match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let spread = results.of(side, step).spread(figure);
    spread.map_or_else(String::new, |spread| spread.text(digits))
}

/// A figure with its name and unit.
type NamedFigure = (&'static str, fn(&Figures) -> f64);

/// Returns the times, with a row for each step and kind of figure.
fn times(results: &Results) -> Table {
    let head = ["work", "figure"].into_iter().chain(Side::ALL.map(Side::name));
    let mut table = Table::new(2, head);
    let figures: [NamedFigure; 2] = [("CPU ms", |f| cpu(f) * 1e3), ("real ms", |f| f.real_s * 1e3)];
    for step in Step::of(&Work::ALL) {
        let mut row = |name: &str, figure| {
            let cells = Side::ALL.map(|side| spread(results, side, step, figure));
            table.row_of([step.to_string(), name.to_owned()], cells);
        };
        for (name, figure) in figures {
            row(name, figure);
        }
        if step.work.is_memory() {
            row("PSS MB", |f| megabytes(f.pss_bytes));
        }
    }
    table
}

/// Returns the ratios of barid's figures to those of Dovecot.
fn ratios(results: &Results) -> Table {
    let head = ["work", "CPU, dovecot", "real, dovecot", "CPU, service_count=0"];
    let mut table = Table::new(1, head);
    for step in Step::of(&Work::ALL) {
        let cell = |side, figure| {
            let ratio = bars::ratio(results, step, side, figure);
            ratio.map_or_else(String::new, |ratio| ratio.text_with_spread())
        };
        let real = |f: &Figures| f.real_s;
        let cells =
            [cell(Side::Dovecot, cpu), cell(Side::Dovecot, real), cell(Side::DovecotKept, cpu)];
        table.row_of([step.to_string()], cells);
    }
    table
}

/// Returns all other figures, with a row for each step and side.
fn details(results: &Results) -> Table {
    lab::details(&results.measured(), &COLUMNS)
}

/// Caption of the table of times.
const TIMES: &str = "\
Median, least and most, of one repetition. CPU time is that of all processes of the server, ended\n\
ones included, in ticks of 10 ms divided by the repetitions; real time is what the client waits.\n\
The CPU time of `select-again` includes logins, its real time does not. Idle sessions: all logins.\n";

/// Caption of the table of ratios.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs of the same round.\n";

/// Caption of the table of details.
const DETAILS: &str = "\
PSS is that of all processes of the server with all sessions idle. Columns of other benches that\n\
are not measured here are 0.\n";
