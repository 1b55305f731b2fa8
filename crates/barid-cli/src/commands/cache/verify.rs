//! `barid cache verify`: whether what is cached is what was written.

use std::path::Path;

use barid::caches;
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
            let mut json = Json::line(context.out.buffer(), "cache_verify");
            json.key("mailbox").bytes(report.mailbox_path.as_os_str().as_encoded_bytes());
            json.key("file").bytes(report.file.as_os_str().as_encoded_bytes());
            json.key("ok").bool(ok);
            json.key("problems").open(b'[');
            report.problems.iter().for_each(|problem| json.str(problem));
            json.close(b']');
            json.end_line();
            continue;
        }
        let mailbox = visible(report.mailbox_path.as_os_str().as_encoded_bytes());
        match report.problems.as_slice() {
            [] => context.out.line(&format!("{mailbox}: ok"))?,
            [problem] => {
                context.out.line(&format!("{mailbox}: {}", visible(problem.as_bytes())))?;
            }
            problems => {
                context.out.line(&format!("{mailbox}: {} problems", problems.len()))?;
                for problem in problems {
                    context.out.line(&format!("  {}", visible(problem.as_bytes())))?;
                }
            }
        }
    }
    Ok(outcome)
}
