//! The files that the bench writes.

use anyhow::Result;
use serde::Serialize;

use super::bars;
use super::results::{Results, Run};
use super::step::{Side, Step};
use crate::lab::{
    self, Bar, CSV_HEAD, Column, Reported, Section, Spread, Table, csv, megabytes, optional,
};

/// The columns of the table of details that only this bench has.
const COLUMNS: [Column; 5] = [
    Column::median("from disk MB", 1, |f| megabytes(f.read_bytes)),
    Column::median("dirtied MB", 1, |f| megabytes(f.write_bytes)),
    Column::counted("barriers", 0, |f| f.barriers.map(|count| count as f64)),
    Column::median("mailbox MB", 1, |f| megabytes(f.file_bytes)),
    Column::median("index MB", 1, |f| megabytes(f.index_bytes)),
];

impl Reported for Results {
    const TITLE: &'static str = "Rewriting an mbox";

    fn raw(&self) -> String {
        let head = format!("round,side,step,{CSV_HEAD},barriers,file_bytes,index_bytes\n");
        let line = |Run { round, side, step, figures: f }: &Run| {
            let (common, barriers) = (csv(f), optional(f.barriers));
            let (file, index) = (f.file_bytes, f.index_bytes);
            format!("{round},{side},\"{step}\",{common},{barriers},{file},{index}\n")
        };
        std::iter::once(head).chain(self.runs.iter().map(line)).collect()
    }

    fn bars(&self) -> Vec<Bar> {
        bars::bars(self)
    }

    fn sections(&self) -> Vec<Section> {
        vec![
            Section::new("Real time", TIMES, times(self)),
            Section::new("barid to the others", RATIOS, ratios(self)),
            Section::new("Everything else", DETAILS, details(self)),
        ]
    }

    fn json_lines(&self) -> Result<Vec<String>> {
        #[derive(Serialize)]
        struct More {
            write_bytes: Spread,
            barriers: Option<u64>,
            file_bytes: Spread,
            index_bytes: Spread,
        }
        lab::measured_lines("bench_mbox", self.measured(), |measured| {
            Some(More {
                write_bytes: measured.spread(|f| f.write_bytes as f64)?,
                barriers: measured.counted(|f| f.barriers),
                file_bytes: measured.spread(|f| f.file_bytes as f64)?,
                index_bytes: measured.spread(|f| f.index_bytes as f64)?,
            })
        })
    }
}

/// Returns real time, with a row for each step and a column for each side.
fn times(results: &Results) -> Table {
    let mut table = Table::new(1, ["seconds", "barid", "dovecot", "dovecot-lazy", "c-client"]);
    for step in Step::ALL {
        let (name, first) = match step {
            Step::Copy => ("(cp and sync)", Side::Copy),
            _ => (step.name(), Side::Barid),
        };
        let sides = std::iter::once(first).chain(Side::PEERS);
        let cells = sides.map(|side| results.of(side, step).seconds_text());
        table.row_of([name.to_owned()], cells);
    }
    table
}

/// Returns the ratio of barid's real time to that of each peer.
fn ratios(results: &Results) -> Table {
    let mut table =
        Table::new(1, ["barid to", "dovecot", "dovecot-lazy", "c-client", "cp and sync"]);
    for step in Step::ALL.into_iter().filter(|step| *step != Step::Copy && !step.is_read()) {
        let ours = results.of(Side::Barid, step);
        let peers = Side::PEERS.map(|peer| ours.ratio_text(&results.of(peer, step)));
        let copy = match step {
            Step::Sync => ours.ratio_text(&results.of(Side::Copy, Step::Copy)),
            _ => String::new(),
        };
        table.row_of([step.name().to_owned()], peers.into_iter().chain([copy]));
    }
    table
}

/// Returns all other figures, with a row for each step and side.
fn details(results: &Results) -> Table {
    lab::details(&results.measured(), &COLUMNS)
}

/// Caption of the table of times.
const TIMES: &str = "\
Median, least and most. Of barid these are whole processes, from start to end; of the peers, but for\n\
`open again`, single commands in a session that is open already.\n";

/// Caption of the table of ratios.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs of the same round.\n";

/// Caption of the table of details.
const DETAILS: &str = "\
`read` and `written` are what calls returned and were given, `from disk` and `dirtied` what the\n\
kernel fetched and has to write (`/proc/PID/io`). Barriers are calls that wait for the disk; they and\n\
anonymous memory come from the round that is not timed. `index` is what is allocated for cache,\n\
state and indexes after the step.\n";
