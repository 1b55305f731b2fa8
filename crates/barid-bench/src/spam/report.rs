//! The files that the bench writes.

use anyhow::Result;
use serde::Serialize;

use super::bars;
use super::results::{Results, Run};
use super::step::{Side, Step};
use crate::lab::{self, Bar, CSV_HEAD, Column, Reported, Section, Spread, Table, csv, megabytes};

/// The columns of the table of details that only this bench has.
const COLUMNS: [Column; 3] = [
    Column::median("from disk MB", 3, |f| megabytes(f.read_bytes)),
    Column::median("dirtied MB", 1, |f| megabytes(f.write_bytes)),
    Column::median("list MB", 1, |f| megabytes(f.index_bytes)),
];

impl Reported for Results {
    const TITLE: &'static str = "The spam filter";
    const BAR_HEADS: &'static [&'static str] = &["work", "side"];

    fn raw(&self) -> String {
        let head = format!("round,side,step,{CSV_HEAD},list_bytes\n");
        let line = |Run { round, side, step, figures: f }: &Run| {
            let (common, list) = (csv(f), f.index_bytes);
            format!("{round},\"{side}\",\"{step}\",{common},{list}\n")
        };
        std::iter::once(head).chain(self.runs.iter().map(line)).collect()
    }

    fn bars(&self) -> Vec<Bar> {
        bars::bars(self)
    }

    fn sections(&self) -> Vec<Section> {
        vec![
            Section::new("Real time", TIMES, times(self)),
            Section::new("barid to bogofilter", RATIOS, ratios(self)),
            Section::new("Everything else", DETAILS, details(self)).only_on_page(),
        ]
    }

    fn json_lines(&self) -> Result<Vec<String>> {
        #[derive(Serialize)]
        struct More {
            read_bytes: Spread,
            write_bytes: Spread,
            list_bytes: Spread,
        }
        lab::measured_lines("bench_spam", self.measured(), |measured| {
            Some(More {
                read_bytes: measured.spread(|f| f.read_bytes as f64)?,
                write_bytes: measured.spread(|f| f.write_bytes as f64)?,
                list_bytes: measured.spread(|f| f.index_bytes as f64)?,
            })
        })
    }
}

/// Returns real time, with a row for each step and a column for each side.
fn times(results: &Results) -> Table {
    let mut table = Table::new(1, std::iter::once("seconds").chain(Side::ALL.map(Side::name)));
    for step in Step::ALL {
        let cell = |side| results.of(side, step).seconds_text();
        table.row_of([step.to_string()], Side::ALL.map(cell));
    }
    table
}

/// Returns the ratio of the real time of each side of barid to that of each build of bogofilter.
fn ratios(results: &Results) -> Table {
    let mut table = Table::new(2, ["step", "side"].into_iter().chain(Side::PEERS.map(Side::name)));
    for step in Step::ALL {
        for side in Side::ALL.into_iter().filter(|side| side.is_own()) {
            let ours = results.of(side, step);
            let cell = |peer| ours.ratio_text(&results.of(peer, step));
            table.row_of([step.to_string(), side.to_string()], Side::PEERS.map(cell));
        }
    }
    table
}

/// Returns all other figures, with a row for each step and side.
fn details(results: &Results) -> Table {
    lab::details(&results.measured(), &COLUMNS)
}

/// Caption of the table of times.
const TIMES: &str = "\
Median, least and most. Whole processes, from start to end, and the shell that starts them.\n\
Classifying with a cold list, everything else is in memory when the first process starts.\n";

/// Caption of the table of ratios.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs of the same round.\n";

/// Caption of the table of details.
const DETAILS: &str = "\
`read` and `written` are what calls returned and were given, pipes included, `from disk` and\n\
`dirtied` what the kernel fetched and has to write (`/proc/PID/io`), without what is mapped.\n\
What the daemon uses is not counted. `list` is what is allocated for the word list after the step.\n";
