//! The files that the bench writes.

use anyhow::Result;
use serde::Serialize;

use super::bars;
use super::results::{Results, Run};
use super::step::{Program, Side, Step, Turn, Work};
use crate::lab::{
    self, Bar, CSV_HEAD, Column, Reported, Section, Spread, Spreads, Table, csv, megabytes,
};

/// The version of the JSON lines.
const VERSION: u32 = 1;

/// The columns of the table of details that only this bench has.
const COLUMNS: [Column; 3] = [
    Column::median("from disk MB", 3, |f| megabytes(f.read_bytes)),
    Column::median("dirtied MB", 1, |f| megabytes(f.write_bytes)),
    Column::median("index MB", 1, |f| megabytes(f.index_bytes)),
];

impl Reported for Results {
    const TITLE: &'static str = "Formats of mailboxes";

    fn raw(&self) -> String {
        let head = format!("round,side,work,turn,{CSV_HEAD},index_bytes\n");
        let line = |Run { round, side, step, figures: f }: &Run| {
            let turn = if step.turn == Turn::First { "first" } else { "again" };
            let (work, common, index) = (step.work.name(), csv(f), f.index_bytes);
            format!("{round},{side},\"{work}\",{turn},{common},{index}\n")
        };
        std::iter::once(head).chain(self.runs.iter().map(line)).collect()
    }

    fn bars(&self) -> Vec<Bar> {
        bars::bars(self)
    }

    fn remarks(&self) -> Vec<String> {
        self.differences.iter().map(|it| format!("Answered otherwise: {it}")).collect()
    }

    fn sections(&self) -> Vec<Section> {
        vec![
            Section::new("The first time", FIRST, times(self, Turn::First)),
            Section::new("Again", AGAIN, times(self, Turn::Again)),
            Section::new("barid to the others", RATIOS, ratios(self)),
            Section::new("Everything else", DETAILS, details(self)).only_on_page(),
        ]
    }

    fn json_lines(&self) -> Result<Vec<String>> {
        #[derive(Serialize)]
        struct Line {
            v: u32,
            r#type: &'static str,
            side: Side,
            #[serde(flatten)]
            step: Step,
            #[serde(flatten)]
            spreads: Spreads,
            read_bytes: Spread,
            write_bytes: Spread,
            index_bytes: Spread,
        }
        let lines = self.measured().into_iter().filter_map(|(step, side, measured)| {
            Some(Line {
                v: VERSION,
                r#type: "bench_formats",
                side,
                step,
                spreads: Spreads::of(&measured)?,
                read_bytes: measured.spread(|f| f.read_bytes as f64)?,
                write_bytes: measured.spread(|f| f.write_bytes as f64)?,
                index_bytes: measured.spread(|f| f.index_bytes as f64)?,
            })
        });
        lab::json_lines(lines)
    }
}

/// Returns real time, with a row for each side and a column for each operation.
fn times(results: &Results, turn: Turn) -> Table {
    let mut table = Table::new(1, std::iter::once("seconds").chain(Work::ALL.map(Work::name)));
    for side in Side::ALL {
        let cell = |work| results.of(side, Step { work, turn }).seconds_text();
        table.row_of([side.to_string()], Work::ALL.map(cell));
    }
    table
}

/// Returns the ratio of the real time of each format of barid to that of each peer's same format
/// and each peer's fastest format.
fn ratios(results: &Results) -> Table {
    let head = [
        "barid to",
        "format",
        "c-client, same",
        "c-client, best",
        "dovecot, same",
        "dovecot, best",
    ];
    let mut table = Table::new(2, head);
    for step in Step::all() {
        for store in results.own() {
            let ours = results.of(Side::new(Program::Barid, store), step);
            let same = |program| Some(Side::new(program, store));
            let others = Program::PEERS.map(|peer| [same(peer), results.best(peer, step)]);
            let cells = others.into_iter().flatten().map(|other| {
                other.map_or_else(String::new, |other| ours.ratio_text(&results.of(other, step)))
            });
            table.row_of([step.to_string(), store.name().to_owned()], cells);
        }
    }
    table
}

/// Returns all other figures, with a row for each step and side.
fn details(results: &Results) -> Table {
    lab::details(&results.measured(), &COLUMNS)
}

/// Caption of the first table of times.
const FIRST: &str = "\
Median, least and most. Whole processes, from start to end, that open the mailbox and do the\n\
work; no program has seen the mailbox before. sdbox and mdbox cannot be without their indexes,\n\
which hold no facts of messages at first.\n";

/// Caption of the second table of times.
const AGAIN: &str = "\
A new process, after one that did the same.\n";

/// Caption of the table of ratios.
const RATIOS: &str = "\
Medians; in brackets least and most of the runs of the same round. `best` is the format with\n\
which the peer is fastest at this.\n";

/// Caption of the table of details.
const DETAILS: &str = "\
`read` and `written` are what calls returned and were given, pipes and sockets included, `from\n\
disk` and `dirtied` what the kernel fetched and has to write (`/proc/PID/io`). Anonymous memory\n\
comes from the round that is not timed. `index` is what is allocated for cache, state and indexes\n\
after the step.\n";
