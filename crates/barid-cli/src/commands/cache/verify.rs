//! `barid cache verify`: whether what is cached is what was written.

use std::path::Path;

use barid::caches::{self, DamagedRecord, VerifyReport};
use clap::Args;

use super::OneOrAll;
use crate::context::Context;
use crate::exit::Outcome;
use crate::output::escape::visible;
use crate::output::json::Json;

const EXAMPLES: &str = "\
Examples:
  barid cache verify                       all caches of the folder
  barid cache verify ~/Maildir
  barid cache verify --json | jq 'select(.ok | not)'";

/// Check every block and every record of every cache
///
/// Every damaged record is named. Exit status: 2 if one is damaged, 1 if MAILBOX has no cache.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    which: OneOrAll,
}

/// Reads caches whole and tells what is wrong.
pub(super) fn run(context: &mut Context, dir: &Path, args: &VerifyArgs) -> anyhow::Result<Outcome> {
    let reports = caches::verify(dir, args.which.path().as_deref())?;
    args.which.must_be_cached(!reports.is_empty())?;
    let mut outcome = Outcome::Done;
    for report in &reports {
        let ok = report.problems.is_empty();
        if !ok {
            outcome = Outcome::Incomplete;
        }
        if context.global.json {
            write_json(context.out.buffer(), report);
        } else {
            write_lines(context.out.buffer(), report);
        }
        context.out.settle()?;
    }
    Ok(outcome)
}

fn write_lines(out: &mut Vec<u8>, report: &VerifyReport) {
    let mut line = |parts: &[&str]| {
        parts.iter().for_each(|part| out.extend_from_slice(visible(part.as_bytes()).as_bytes()));
        out.push(b'\n');
    };
    let mailbox = String::from_utf8_lossy(report.mailbox_path.as_os_str().as_encoded_bytes());
    if report.problems.is_empty() {
        return line(&[&mailbox, ": ok"]);
    }
    line(&[&mailbox, ": ", &report.problems.join("; ")]);
    for DamagedRecord { row, uid, what } in &report.records {
        line(&["  UID ", &uid.to_string(), ", message ", &(row + 1).to_string(), ": ", what]);
    }
}

fn write_json(out: &mut Vec<u8>, report: &VerifyReport) {
    let mut json = Json::line(out, "cache_verify");
    json.key("mailbox").bytes(report.mailbox_path.as_os_str().as_encoded_bytes());
    json.key("file").bytes(report.file.as_os_str().as_encoded_bytes());
    json.key("ok").bool(report.problems.is_empty());
    json.key("problems").open(b'[');
    report.problems.iter().for_each(|problem| json.str(problem));
    json.close(b']');
    json.key("records").open(b'[');
    for DamagedRecord { row, uid, what } in &report.records {
        json.open(b'{');
        json.key("uid").number(uid.get().into());
        json.key("seq").number(u64::from(*row) + 1);
        json.key("what").str(what);
        json.close(b'}');
    }
    json.close(b']');
    json.end_line();
}
