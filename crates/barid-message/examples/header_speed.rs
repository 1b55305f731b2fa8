//! Prints what the header functions cost on the messages given as files.
//!
//! `cargo run --release -p barid-message --example header_speed -- FILE...`

use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use barid_message::{
    HeaderFields, HeaderScan, Profile, SubjectScratch, base_subject_into, body_offset,
    display_name, first_mailbox, header_key, message_ids, parse_date,
};

const ROUNDS: u32 = 20;

fn main() -> std::io::Result<()> {
    let mut headers = Vec::new();
    for path in std::env::args_os().skip(1) {
        #[expect(clippy::disallowed_methods, reason = "a measuring tool, outside the library")]
        let mut message = std::fs::read(path)?;
        message.truncate(body_offset(&message));
        headers.push(message);
    }
    let bytes: usize = headers.iter().map(Vec::len).sum();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} headers of {} bytes", headers.len(), bytes / headers.len().max(1))?;
    let mut report = |name: &str, work: &mut dyn FnMut()| {
        let best = (0..ROUNDS).map(|_| time(work)).min().unwrap_or_default();
        let nanoseconds = best.as_nanos() as f64 / headers.len().max(1) as f64;
        writeln!(out, "{name:20} {nanoseconds:8.1} ns a message")
    };
    let scanned: Vec<_> = headers.iter().map(|header| HeaderFields::scan(header)).collect();
    let values = |get: for<'a> fn(&HeaderFields<'a>) -> Option<&'a [u8]>| {
        scanned.iter().filter_map(move |fields| black_box(get(fields)))
    };
    report("scan", &mut || {
        for header in &headers {
            black_box(HeaderScan::new(black_box(header)));
        }
    })?;
    report("body_offset", &mut || {
        for header in &headers {
            black_box(body_offset(black_box(header)));
        }
    })?;
    report("scan_with_key", &mut || {
        for header in &headers {
            black_box(HeaderScan::with_key(black_box(header)));
        }
    })?;
    report("header_key", &mut || {
        for header in &headers {
            black_box(header_key(black_box(header)));
        }
    })?;
    report("parse_date", &mut || {
        values(|fields| fields.date).for_each(|raw| {
            black_box(parse_date(raw));
        });
    })?;
    let mut scratch = SubjectScratch::default();
    report("base_subject_into", &mut || {
        values(|fields| fields.subject).for_each(|raw| {
            black_box(base_subject_into(raw, Profile::Rfc, &mut scratch));
        });
    })?;
    report("message_ids", &mut || {
        values(|fields| fields.references).for_each(|raw| {
            message_ids(raw, Profile::Rfc, &mut |id| {
                black_box(id);
            });
        });
    })?;
    report("first_mailbox", &mut || {
        values(|fields| fields.from).for_each(|raw| {
            black_box(first_mailbox(raw));
        });
    })?;
    report("display_name", &mut || {
        values(|fields| fields.from).for_each(|raw| {
            black_box(display_name(raw));
        });
    })
}

fn time(work: &mut dyn FnMut()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
