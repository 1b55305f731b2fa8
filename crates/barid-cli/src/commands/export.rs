//! `barid export`: writes messages into files of their own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use barid::{Mailbox, Uid};
use clap::{Args, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::mail::mailboxes::MailboxesArgs;
use crate::mail::new_files::{NewFile, NewFiles};
use crate::mail::pieces::read_without_owned;
use crate::mail::query::QueryArgs;
use crate::mail::selection::{MessageSelection, Selector};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::counted;

const EXAMPLES: &str = "\
Examples:
  barid export ~/Maildir thread:4711 --to case            a whole thread
  barid export ~/Maildir from:ann newer:1y --to case      what a query finds
  barid export --in inbox --tree ~/archive from:ann --to case     in several mailboxes
  barid ls case                                           the folder is a mailbox that can be read

Each message is a file UID.eml, dated when the message arrived. A file that exists is never
replaced: another number is put behind the UID. For one file with many messages use `barid copy
--create`, for all of a mailbox `barid convert`.

Exit status: 1 if a UID does not exist, 2 if a message cannot be read; the others are exported.";

const USAGE: &str = "\
barid export [OPTIONS] --to <DIR> <MAILBOX> <UIDS|QUERY>...
       barid export [OPTIONS] --to <DIR> --in <MAILBOX>... --tree <DIR>... <QUERY>...";

/// Export messages: write each into a file of its own
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, override_usage = USAGE)]
pub(crate) struct ExportArgs {
    /// The mailbox: a path, or FORMAT:PATH. With --in or --tree, the query begins here
    #[arg(value_hint = ValueHint::AnyPath, required_unless_present_any = ["mailboxes", "trees"])]
    mailbox: Option<OsString>,
    /// The messages: UIDs and ranges, as in 1:4,7,* (* is the last), or `all`; or a query as for
    /// `barid search`
    #[arg(required_unless_present_any = ["mailboxes", "trees"], value_name = "UIDS|QUERY")]
    messages: Vec<String>,
    #[command(flatten)]
    several: MailboxesArgs,
    /// Write the files into DIR, which is created if it does not exist
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    to: PathBuf,
    #[command(flatten)]
    query: QueryArgs,
}

/// Exports each message; reports unreadable ones.
pub(crate) fn run(context: &mut Context, args: &ExportArgs) -> anyhow::Result<Outcome> {
    args.several.check()?;
    let selector = Selector::reading("nothing is exported");
    let Some(name) = args.several.one(&args.mailbox) else {
        return export_several(context, args, selector);
    };
    let selection = MessageSelection::parse(context, &args.messages, args.query, selector)?;
    let (mut mailbox, selected) =
        context.open_and(name, |mailbox| selection.select_in_order(mailbox))?;
    let outcome = selected.report(context, name);
    let uids = selected.selected.uids;
    let mut export = Export::new(&args.to, uids.is_empty())?;
    let outcome = outcome.worse(export.messages(context, (&mut mailbox, None), &uids)?);
    export.finish(context, outcome)
}

/// Exports the messages of several mailboxes that a query finds.
fn export_several(
    context: &mut Context,
    args: &ExportArgs,
    selector: Selector,
) -> anyhow::Result<Outcome> {
    let words = args.several.words(args.mailbox.as_deref(), &args.messages)?;
    if words.is_empty() {
        let hint = "name a query; `all` is every message";
        return Err(WithHint::error("no messages are named: nothing is exported", hint));
    }
    let program = MessageSelection::parse_for_mailboxes(context, &words, args.query, selector)?;
    let (mut found, mut outcome) = args.several.search(context, &program, false)?;
    let is_empty = found.parts.iter().all(|part| part.rows.is_empty());
    let mut export = Export::new(&args.to, is_empty)?;
    for part in &mut found.parts {
        let uids = part.mailbox.uids_of(&part.rows)?;
        let mailbox = (&mut part.mailbox, Some(&*part.name));
        outcome = outcome.worse(export.messages(context, mailbox, &uids)?);
    }
    let outcome = export.finish(context, outcome)?;
    Ok(found.outcome(context, outcome))
}

/// The files that are written.
struct Export<'a> {
    dir: &'a Path,
    /// `None` if no messages are exported: then no folder is created.
    files: Option<NewFiles>,
    exported: u64,
}

impl<'a> Export<'a> {
    fn new(dir: &'a Path, is_empty: bool) -> anyhow::Result<Self> {
        let files = (!is_empty).then(|| NewFiles::new(dir)).transpose()?;
        Ok(Self { dir, files, exported: 0 })
    }

    /// Exports messages of a mailbox, which has a name where several are read.
    fn messages(
        &mut self,
        context: &mut Context,
        (mailbox, name): (&mut Mailbox, Option<&OsStr>),
        uids: &[Uid],
    ) -> anyhow::Result<Outcome> {
        let Some(files) = &mut self.files else { return Ok(Outcome::Done) };
        let mut outcome = Outcome::Done;
        for uid in uids {
            let file = files.create(&format!("{uid}.eml"))?;
            match write(mailbox, *uid, file) {
                Ok(file) => {
                    self.exported += 1;
                    if context.global.json {
                        print_json(context, (name, *uid), &file);
                    }
                }
                Err(error) => {
                    outcome = Outcome::Incomplete;
                    report(context, &error.context(format!("UID {uid}")));
                }
            }
            context.out.settle()?;
        }
        Ok(outcome)
    }

    /// Prints how many messages there are.
    fn finish(self, context: &mut Context, outcome: Outcome) -> anyhow::Result<Outcome> {
        if !context.global.json && self.files.is_some() {
            let dir = visible(self.dir.as_os_str().as_encoded_bytes());
            context.out.line(&format!("{dir}: {}", counted(self.exported, "message")))?;
        }
        Ok(outcome.worse(Outcome::nothing_if(self.files.is_none())))
    }
}

/// Writes a message without the fields that formats own. It is not synced: the mailbox still has
/// it. After an error the file is removed.
fn write(mailbox: &mut Mailbox, uid: Uid, mut file: NewFile) -> anyhow::Result<NewFile> {
    let mut arrived = None;
    if let Some(row) = mailbox.row_of(uid)? {
        mailbox.view().summaries(&[row], &mut |summary| {
            arrived = Some(summary.internal_date.unix_seconds);
            false
        })?;
    }
    let mut written = Ok(());
    let read = read_without_owned(mailbox, uid, &mut |piece| {
        written = file.write(piece);
        written.is_ok()
    });
    let dated = |()| arrived.map_or(Ok(()), |arrived| file.set_date(arrived));
    match written.and_then(|()| Ok(read?)).and_then(dated) {
        Ok(()) => Ok(file),
        Err(error) => {
            file.remove();
            Err(error)
        }
    }
}

fn print_json(context: &mut Context, (name, uid): (Option<&OsStr>, Uid), file: &NewFile) {
    let mut json = Json::line(context.out.buffer(), "exported");
    if let Some(name) = name {
        json.key("mailbox").bytes(name.as_encoded_bytes());
    }
    json.key("uid").number(uid.get().into());
    json.key("path").bytes(file.path().as_os_str().as_encoded_bytes());
    json.key("bytes").number(file.len());
    json.end_line();
}
