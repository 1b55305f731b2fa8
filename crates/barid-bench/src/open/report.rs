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
    Column::median("index MB", 1, |f| megabytes(f.index_bytes)),
];

impl Reported for Results {
    const TITLE: &'static str = "Opening mailboxes";

    fn raw(&self) -> String {
        let head = format!("round,side,step,{CSV_HEAD},index_bytes\n");
        let line = |Run { round, side, step, figures: f }: &Run| {
            format!("{round},{side},\"{step}\",{},{}\n", csv(f), f.index_bytes)
        };
        std::iter::once(head).chain(self.runs.iter().map(line)).collect()
    }

    fn bars(&self) -> Vec<Bar> {
        bars::bars(self)
    }

    fn remarks(&self) -> Vec<String> {
        self.compared.iter().map(|compared| format!("Compared: {compared}")).collect()
    }

    fn sections(&self) -> Vec<Section> {
        vec![
            Section::new("Real time", TIMES, times(self)),
            Section::new("Everything else", DETAILS, lab::details(&self.measured(), &COLUMNS))
                .only_on_page(),
        ]
    }

    fn json_lines(&self) -> Result<Vec<String>> {
        #[derive(Serialize)]
        struct More {
            read_bytes: Spread,
            write_bytes: Spread,
            index_bytes: Spread,
        }
        lab::measured_lines("bench_open", self.measured(), |measured| {
            Some(More {
                read_bytes: measured.spread(|f| f.read_bytes as f64)?,
                write_bytes: measured.spread(|f| f.write_bytes as f64)?,
                index_bytes: measured.spread(|f| f.index_bytes as f64)?,
            })
        })
    }
}

/// Returns real time, with a row for each step and a column for each side.
fn times(results: &Results) -> Table {
    let mut table = Table::new(1, std::iter::once("seconds").chain(Side::ALL.map(Side::name)));
    for step in Step::ALL {
        let cell = |side| results.of(side, step).seconds_text();
        table.row_of([step.name().to_owned()], Side::ALL.map(cell));
    }
    table
}

/// Caption of the table of times.
const TIMES: &str = "\
Median, least and most. Of barid and NeoMutt these are whole processes, from start to end. Dovecot's\n\
SELECT is timed from the start of its process to the answer, its THREAD from the command to the\n\
answer in a session with warm indexes. `limit` is the bare work on the same files by threads.\n";

/// Caption of the table of details.
const DETAILS: &str = "\
`read` and `written` are what calls returned and were given, `from disk` and `dirtied` what the\n\
kernel fetched and has to write (`/proc/PID/io`); of Dovecot they are those of the whole process.\n\
Anonymous memory comes from the round that is not timed. `index` is what is allocated for cache,\n\
state and header cache after the step.\n";
