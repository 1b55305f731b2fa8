//! The files that the bench writes.

use anyhow::Result;
use serde::Serialize;

use super::bars;
use super::query::{Field, Query};
use super::results::{Results, Run};
use super::step::{Side, Step};
use crate::lab::{
    self, Bar, CSV_HEAD, Column, LINES_VERSION, Reported, Section, Spread, Table, csv, grouped,
    megabytes,
};

/// The columns of the table of details that only this bench has.
const COLUMNS: [Column; 2] = [
    Column::median("from disk MB", 3, |f| megabytes(f.read_bytes)),
    Column::median("dirtied MB", 1, |f| megabytes(f.write_bytes)),
];

impl Reported for Results {
    const TITLE: &'static str = "Searching texts";

    fn raw(&self) -> String {
        let head = format!("round,side,step,query,{CSV_HEAD},index_bytes\n");
        let mut asked = self.asked.iter().peekable();
        let line = |(at, run): (usize, &Run)| {
            let query = asked.next_if(|(run, _)| *run == at).map(|(_, query)| *query as u64);
            let Run { round, side, step, figures: f } = run;
            let (query, common, index) = (lab::optional(query), csv(f), f.index_bytes);
            format!("{round},{side},\"{step}\",{query},{common},{index}\n")
        };
        std::iter::once(head).chain(self.runs.iter().enumerate().map(line)).collect()
    }

    fn bars(&self) -> Vec<Bar> {
        bars::bars(self)
    }

    fn remarks(&self) -> Vec<String> {
        if self.judged == 0 {
            return Vec::new();
        }
        let (judged, messages) = (grouped(self.judged), grouped(self.messages));
        let queries = grouped(self.queries.len() as u64);
        vec![format!("Queries: {queries}, judged by {judged} of {messages} messages")]
    }

    fn sections(&self) -> Vec<Section> {
        vec![
            Section::new("Building", BUILDING, building(self)),
            Section::new("Sizes", SIZES, sizes(self)),
            Section::new("Deliveries", DELIVERIES, deliveries(self)),
            Section::new("Queries", QUERIES, queries(self)),
            Section::new("What is found", FOUND, found(self)),
            Section::new("Differences by class", BY_CLASS, by_class(self)).only_on_page(),
            Section::new("Everything else", DETAILS, lab::details(&self.measured(), &COLUMNS))
                .only_on_page(),
        ]
    }

    fn json_lines(&self) -> Result<Vec<String>> {
        #[derive(Serialize)]
        struct More {
            index_bytes: Spread,
        }
        let mut lines = lab::measured_lines("bench_search", self.measured(), |measured| {
            Some(More { index_bytes: measured.spread(|f| f.index_bytes as f64)? })
        })?;
        lines.extend(recall_lines(self)?);
        Ok(lines)
    }

    /// The queries, which are words of the mail, have a file of their own.
    fn more_files(&self) -> Vec<(&'static str, String)> {
        vec![("queries.csv", query_list(self))]
    }
}

/// Returns a JSON line about what each side finds.
fn recall_lines(results: &Results) -> Result<Vec<String>> {
    #[derive(Serialize)]
    struct Line {
        v: u32,
        r#type: &'static str,
        side: Side,
        queries: u64,
        not_asked: u64,
        matches: u64,
        missed: u64,
        added: u64,
    }
    let lines = Side::ALL.into_iter().filter_map(|side| {
        let recall = results.recall(side, None)?;
        Some(Line {
            v: LINES_VERSION,
            r#type: "bench_search_recall",
            side,
            queries: recall.asked,
            not_asked: recall.not_asked,
            matches: recall.matches,
            missed: recall.missed,
            added: recall.added,
        })
    });
    lab::json_lines(lines)
}

/// Returns the queries as CSV.
fn query_list(results: &Results) -> String {
    let head = "query,field,class,text,matches,found,read\n".to_owned();
    let lines = results.queries.iter().enumerate().map(|(at, query)| {
        let Query { field, class, needle, .. } = query;
        let matches = lab::optional(results.matches.get(at).copied());
        let own = results.candidates.iter().find(|(of, _)| *of == at).map(|(_, own)| own);
        let found = lab::optional(own.map(|own| own.found));
        let read = lab::optional(own.map(|own| own.read));
        format!("{at},{},{class},\"{needle}\",{matches},{found},{read}\n", field.name())
    });
    std::iter::once(head).chain(lines).collect()
}

fn building(results: &Results) -> Table {
    let head = ["side", "seconds", "processor s", "memory MB", "barid's time to it"];
    let mut table = Table::new(1, head);
    for side in Side::ALL {
        let measured = results.of(side, Step::Build);
        let number = |value: Option<f64>| value.map_or_else(String::new, |n| format!("{n:.1}"));
        let ratio = || results.of(Side::Barid, Step::Build).ratio_text(&measured);
        table.row_of(
            [side.to_string()],
            [
                measured.seconds_text(),
                number(measured.median(|f| f.user_s + f.sys_s)),
                number(measured.median(|f| megabytes(f.maxrss_bytes))),
                if side == Side::Barid { String::new() } else { ratio() },
            ],
        );
    }
    table
}

fn sizes(results: &Results) -> Table {
    let mut table = Table::new(2, ["side", "part", "MB", "part of the mail"]);
    for size in &results.sizes {
        let part = lab::Ratio::of(&[size.bytes as f64], &[results.mail_bytes as f64]);
        let part = part.map_or_else(String::new, |ratio| ratio.text());
        let bytes = format!("{:.1}", megabytes(size.bytes));
        table.row_of([size.side.to_string(), size.part.to_owned()], [bytes, part]);
    }
    table
}

fn deliveries(results: &Results) -> Table {
    let mut table = Table::new(1, std::iter::once("seconds").chain(Side::ALL.map(Side::name)));
    for step in Step::OTHERS.into_iter().filter(|step| *step != Step::Build) {
        let cell = |side| results.of(side, step).seconds_text();
        table.row_of([step.to_string()], Side::ALL.map(cell));
    }
    table
}

fn queries(results: &Results) -> Table {
    let mut table = Table::new(1, std::iter::once("ms").chain(Side::ALL.map(Side::name)));
    for step in Step::queries() {
        let cell = |side| {
            let spread = results.spread_of_queries(side, step);
            spread.map_or_else(String::new, |spread| {
                let [median, least, most] =
                    [spread.median, spread.least, spread.most].map(|seconds| seconds * 1e3);
                format!("{median:.1} ({least:.1}-{most:.1})")
            })
        };
        table.row_of([step.to_string()], Side::ALL.map(cell));
    }
    table
}

fn found(results: &Results) -> Table {
    let head = ["side", "queries", "not asked", "true matches", "missed", "added"];
    let shares = ["body missed %", "subject %", "text %"];
    let mut table = Table::new(1, head.into_iter().chain(shares));
    for side in Side::ALL {
        let Some(recall) = results.recall(side, None) else { continue };
        let cells = [recall.asked, recall.not_asked, recall.matches, recall.missed, recall.added];
        let share = |field| {
            let recall = results.recall(side, Some(field));
            recall.map_or_else(String::new, |recall| {
                format!("{:.1}", 100.0 * recall.missed as f64 / recall.matches.max(1) as f64)
            })
        };
        table.row_of(
            [side.to_string()],
            cells.map(grouped).into_iter().chain(Field::ALL.map(share)),
        );
    }
    table
}

fn by_class(results: &Results) -> Table {
    let heads = std::iter::once("missed of true, added").chain(Side::ALL.map(Side::name));
    let mut table = Table::new(1, heads);
    for step in Step::queries() {
        let cell = |side| {
            let is_own = |recall: &&super::Recall| {
                recall.side == side && step == Step::Query(recall.field, recall.class)
            };
            let recall = results.recalls.iter().find(is_own).filter(|recall| recall.asked > 0);
            recall.map_or_else(String::new, |recall| {
                let [missed, matches, added] =
                    [recall.missed, recall.matches, recall.added].map(grouped);
                format!("{missed} of {matches}, {added}")
            })
        };
        table.row_of([step.to_string()], Side::ALL.map(cell));
    }
    table
}

/// Caption of the table of building.
const BUILDING: &str = "\
Whole processes, from nothing: barid fills its cache of headers too. The memory is the peak of all\n\
resident pages; of Dovecot it is at least that of the bench.\n";

/// Caption of the table of sizes.
const SIZES: &str = "\
Bytes allocated on the disk; of the text index of barid, the lengths of its files.\n";

/// Caption of the table of deliveries.
const DELIVERIES: &str = "\
Median, least and most. The search is for a word that all delivered messages have and no other.\n\
`no-index` and Dovecot without its index have nothing to bring up to date.\n";

/// Caption of the table of queries.
const QUERIES: &str = "\
Milliseconds of whole processes; of Dovecot from the start of its process to the answer. Of each\n\
query the median of all rounds is taken; of these the table has the median, the least and the most.\n\
The page cache is warm. barid is put all queries, the others the first ones of each class.\n";

/// Caption of the table of differences.
const FOUND: &str = "\
By the messages that leave no doubt: one part of plain text in ASCII, UTF-8 or ISO-8859-1, with a\n\
header of ASCII and sound encoded words. What a message says is decoded by the bench itself. `added`\n\
are messages found although the text is in none of the places that were searched; of notmuch, mu and\n\
mairix that is mostly because they look for words.\n";

/// Caption of the table of differences by class.
const BY_CLASS: &str = "\
`2 of 9, 1`: of 9 messages that have the text 2 are not found, and 1 is found that has it not.\n";

/// Caption of the table of details.
const DETAILS: &str = "\
`read` and `written` are what calls returned and were given, `from disk` and `dirtied` what the\n\
kernel fetched and has to write (`/proc/PID/io`).\n";
