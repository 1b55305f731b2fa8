//! `barid export`: writes messages into files of their own.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use barid::{Mailbox, Uid};
use clap::{Args, ValueHint};

use crate::context::Context;
use crate::exit::{Outcome, report};
use crate::mail::mailboxes::MailboxesArgs;
use crate::mail::named::{MessagesWork, NamedMessages};
use crate::mail::pieces::read_without_owned;
use crate::mail::query::QueryArgs;
use crate::mail::save_folder::{SaveFolder, SavedFile};
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
    let named = NamedMessages {
        mailbox: &args.mailbox,
        words: &args.messages,
        several: &args.several,
        query: args.query,
        nothing: "nothing is exported",
    };
    let mut export = Export { dir: &args.to, folder: None, exported: 0 };
    let outcome = named.each(context, &mut export)?;
    if !context.global.json && export.folder.is_some() {
        let dir = visible(args.to.as_os_str().as_encoded_bytes());
        context.out.line(&format!("{dir}: {}", counted(export.exported, "message")))?;
    }
    Ok(outcome)
}

/// The files that are written.
struct Export<'a> {
    dir: &'a Path,
    /// `None` until there is a message: without one no folder is created.
    folder: Option<SaveFolder>,
    exported: u64,
}

impl MessagesWork for Export<'_> {
    fn begin(&mut self, count: usize) -> anyhow::Result<()> {
        self.folder = (count > 0).then(|| SaveFolder::new(self.dir)).transpose()?;
        Ok(())
    }

    fn messages(
        &mut self,
        context: &mut Context,
        (mailbox, name): (&mut Mailbox, Option<&OsStr>),
        uids: &[Uid],
    ) -> anyhow::Result<Outcome> {
        let Some(folder) = &mut self.folder else { return Ok(Outcome::Done) };
        let dates = arrival_dates(mailbox, uids)?;
        let mut outcome = Outcome::Done;
        for uid in uids {
            let file = folder.create(&format!("{uid}.eml"))?;
            match write(mailbox, *uid, dates.get(uid), file) {
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
}

/// Returns when messages arrived, in seconds since 1970.
fn arrival_dates(mailbox: &Mailbox, uids: &[Uid]) -> barid::Result<HashMap<Uid, i64>> {
    let mut rows = Vec::with_capacity(uids.len());
    for uid in uids {
        rows.extend(mailbox.row_of(*uid)?);
    }
    let mut dates = HashMap::with_capacity(rows.len());
    mailbox.summaries(&rows, &mut |summary| {
        dates.insert(summary.uid, summary.internal_date.unix_seconds);
        true
    })?;
    Ok(dates)
}

/// Writes a message without the fields that formats own. It is not synced: the mailbox still has
/// it. After an error the file is removed.
fn write(
    mailbox: &mut Mailbox,
    uid: Uid,
    arrived: Option<&i64>,
    mut file: SavedFile,
) -> anyhow::Result<SavedFile> {
    let mut written = Ok(());
    let read = read_without_owned(mailbox, uid, &mut |piece| {
        written = file.write(piece);
        written.is_ok()
    });
    let dated = |()| arrived.map_or(Ok(()), |arrived| file.set_date(*arrived));
    match written.and_then(|()| Ok(read?)).and_then(dated) {
        Ok(()) => Ok(file),
        Err(error) => {
            file.remove();
            Err(error)
        }
    }
}

fn print_json(context: &mut Context, (name, uid): (Option<&OsStr>, Uid), file: &SavedFile) {
    let mut json = Json::line(context.out.buffer(), "exported");
    if let Some(name) = name {
        json.key("mailbox").bytes(name.as_encoded_bytes());
    }
    json.key("uid").number(uid.get().into());
    json.key("path").bytes(file.path().as_os_str().as_encoded_bytes());
    json.key("bytes").number(file.len());
    json.end_line();
}
