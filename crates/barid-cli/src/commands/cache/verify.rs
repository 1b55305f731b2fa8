//! `barid cache verify`: checks that caches contain what was written.

use std::path::Path;

use barid::caches::{self, DamagedRecord, VerifyReport};
use clap::Args;

use super::figures::repair_hint;
use super::{OneOrAll, name_of};
use crate::context::Context;
use crate::exit::Outcome;
use crate::limits::RECORDS_SHOWN;
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid cache verify                       all caches of the folder
  barid cache verify ~/Maildir
  barid cache verify --json | jq 'select(.ok | not)'";

/// Check every block and every record of every cache
///
/// Lists the first ten damaged records of a cache, with --verbose or --json more. Repairs nothing,
/// but prints the command that does. Exit status: 2 if a cache is damaged or cannot be checked, 1
/// if MAILBOX has no cache.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    which: OneOrAll,
}

/// Reads caches completely and prints the problems.
pub(super) fn run(context: &mut Context, dir: &Path, args: &VerifyArgs) -> anyhow::Result<Outcome> {
    let reports = caches::verify(dir, args.which.path(context)?.as_deref())?;
    args.which.must_be_cached(!reports.is_empty())?;
    let mut outcome = Outcome::Done;
    for report in &reports {
        if context.global.json {
            write_json(context.out.buffer(), report);
        } else {
            let shown = if context.global.verbose { usize::MAX } else { RECORDS_SHOWN };
            write_lines(context.out.buffer(), report, shown);
        }
        if report.problems.is_empty() {
            context.out.settle()?;
            continue;
        }
        outcome = Outcome::Incomplete;
        context.out.flush()?;
        let hint = match report.damaged {
            true => repair_hint(context, &report.mailbox_path, report.options),
            false => "`barid cache stores` lists the usable stores".to_owned(),
        };
        context.error_line("hint", &visible(hint.as_bytes()));
    }
    Ok(outcome)
}

fn write_lines(out: &mut Vec<u8>, report: &VerifyReport, shown: usize) {
    let mut line = |parts: &[&str]| {
        parts.iter().for_each(|part| out.extend_from_slice(visible(part.as_bytes()).as_bytes()));
        out.push(b'\n');
    };
    let mailbox = name_of(&report.mailbox_path, &report.file).to_string_lossy();
    if report.problems.is_empty() {
        return line(&[&mailbox, ": ok"]);
    }
    line(&[&mailbox, ": ", &report.problems.join("; ")]);
    for DamagedRecord { row, uid, what } in report.records.iter().take(shown) {
        line(&["  UID ", &uid.to_string(), ", message ", &(row + 1).to_string(), ": ", what]);
    }
    let more = report.records.len().saturating_sub(shown);
    if more > 0 {
        line(&["  and ", &counted(more as u64, "record"), " more; --verbose lists them"]);
    }
}

fn write_json(out: &mut Vec<u8>, report: &VerifyReport) {
    let mut json = Json::line(out, "cache_verify");
    let mailbox = report.mailbox_path.as_os_str();
    if !mailbox.is_empty() {
        json.key("mailbox").bytes(mailbox.as_encoded_bytes());
    }
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
