//! `barid spam classify`: scores messages as spam, ham or unsure.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use barid::message::decode_words;
use barid::vfs::{FileType, OsVfs, Vfs as _};
use barid::{Mailbox, Uid};
use barid_spam::bayes::Status;
use barid_spam::wordlist::Damage;
use barid_spam::{At, Classified, Filter, Source, SpamOptions};
use clap::{Args, ValueHint};

use super::damage::warn_of_new;
use super::input::{FromStdin, Input, MessagesArgs, inputs, read_stdin, select};
use super::{ScoringArgs, is_set, name_of, stop_on_signal};
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::limits::SUBJECT_ROWS;
use crate::mail::selection::{MessageSelection, SelectedMessages, Selector};
use crate::output::escape::visible;
use crate::output::json::Json;
use crate::output::number::{counted, grouped};

const EXAMPLES: &str = "\
Examples:
  barid spam classify ~/Maildir            a line for each message
  barid spam classify --json ~/Maildir | jq 'select(.status == \"spam\") | .uid'
  barid spam classify ~/Maildir --uids 'newer:1d -is:answered'
  barid spam classify --explain < message.eml
  barid spam classify --rescore ~/Maildir  read all again, after more training

The scores of a mailbox's messages are saved: the next time only messages without a score are read,
even if the filter was trained since.

Exit status: 2 if a message could not be read; with --exit-code, that of bogofilter.";

/// Classify messages as spam or ham
///
/// Prints the class of each message and its score, from 0 for ham to 1 for spam.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ClassifyArgs {
    /// The messages: mailboxes (paths, or FORMAT:PATH) and files with one message each; without a
    /// name, or with `-`, a message or an mbox is read from standard input
    #[arg(value_name = "MAILBOX|FILE", value_hint = ValueHint::AnyPath)]
    names: Vec<OsString>,
    #[command(flatten)]
    messages: MessagesArgs,
    /// Read all messages, even those with a saved score
    #[arg(long)]
    rescore: bool,
    /// List the words that decided, those for ham first, and read all messages
    #[arg(long)]
    explain: bool,
    /// Exit with the class of the last message: 0 spam, 1 ham, 2 unsure; 3 after an error
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    scoring: ScoringArgs,
}

/// The results of all inputs.
#[derive(Default)]
struct ClassifyTotals {
    last: Option<Status>,
    failed: Vec<anyhow::Error>,
    older: u64,
    damage: Vec<Damage>,
}

/// Classifies messages and prints the results.
pub(crate) fn run(context: &mut Context, args: &ClassifyArgs) -> anyhow::Result<Outcome> {
    let done = classify(context, args);
    match (done, args.exit_code) {
        (done, false) => done,
        (Ok(Outcome::Incomplete), true) => Ok(Outcome::Code(3)),
        (Ok(outcome), true) => Ok(outcome),
        (Err(error), true) => {
            report(context, &error);
            Ok(Outcome::Code(3))
        }
    }
}

fn classify(context: &mut Context, args: &ClassifyArgs) -> anyhow::Result<Outcome> {
    let inputs = inputs(context, &args.names)?;
    let selection =
        args.messages.selection(context, &inputs, Selector::reading("nothing is classified"))?;
    let stop = stop_on_signal(context)?;
    let mut found = ClassifyTotals::default();
    for input in &inputs {
        let (mut out, shown) = (Vec::new(), Arc::clone(&stop));
        let mut is_out = Vec::new();
        std::mem::swap(context.out.buffer(), &mut is_out);
        let done = context.with_line(Some(shown), |progress| {
            let options =
                SpamOptions { stop: Some(Arc::clone(&stop)), progress, ..SpamOptions::default() };
            let filter = args.scoring.filter(context, options)?;
            let selection = selection.as_ref();
            let printer = Printer { context, args, selection, filter: &filter };
            let done = printer.input(input, &mut found, &mut out);
            anyhow::Ok((filter, done))
        });
        *context.out.buffer() = is_out;
        context.out.block(&out)?;
        let (filter, done) = done?;
        warn_of_new(context, &filter, &mut found.damage);
        done?;
    }
    if is_set(&stop) {
        let hint = "run it again to continue: the scores so far are saved";
        return Err(WithHint::error("interrupted before all messages were read", hint));
    }
    if found.older > 0 && !context.global.quiet {
        let older = counted(found.older, "score");
        let text = format!("{older} from before the last training; --rescore reads all");
        context.error_line("note", &text);
    }
    let is_whole = found.failed.is_empty();
    if found.last.is_none() && is_whole {
        let text = "no message to classify";
        if args.exit_code {
            return Err(WithHint::error(text, "check the input"));
        }
        // An empty mailbox is normal, while an empty file is usually a mistake.
        if !context.global.quiet && inputs.iter().any(|input| is_file(context, input)) {
            context.error_line("note", text);
        }
    }
    found.failed.iter().for_each(|error| report(context, error));
    Ok(match (found.last, is_whole) {
        (_, false) => Outcome::Incomplete,
        (Some(status), true) if args.exit_code => Outcome::Code(match status {
            Status::Spam => 0,
            Status::Ham => 1,
            Status::Unsure => 2,
        }),
        _ => Outcome::Done,
    })
}

fn is_file(context: &Context, input: &Input) -> bool {
    let Input::Mailbox(name) = input else { return true };
    let spec = context.spec(name);
    spec.is_ok_and(|spec| {
        let metadata = OsVfs.metadata(&spec.path);
        metadata.is_ok_and(|metadata| metadata.file_type == FileType::File)
    })
}

/// A printer of the classified messages of an input.
struct Printer<'a> {
    context: &'a Context,
    args: &'a ClassifyArgs,
    selection: Option<&'a MessageSelection>,
    filter: &'a Filter,
}

impl Printer<'_> {
    fn input(
        &self,
        input: &Input,
        found: &mut ClassifyTotals,
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        match input {
            Input::Mailbox(name) => self.mailbox(name, found, out),
            Input::Files(files) => {
                let source = Source::Files(files);
                let explains = self.args.explain;
                Ok(self.filter.classify(source, explains, &mut |at, classified| {
                    let At::Index(index) = at else { return Ok(()) };
                    let Some(file) = files.get(index) else { return Ok(()) };
                    match classified {
                        Ok(Some(classified)) => {
                            found.last = Some(classified.status);
                            self.file(file.as_os_str(), &classified, out);
                        }
                        Ok(None) => {}
                        Err(error) => found.failed.push(error.into()),
                    }
                    Ok(())
                })?)
            }
            Input::Stdin => {
                let message = match read_stdin(self.context)? {
                    FromStdin::Message(message) => message,
                    FromStdin::Mbox(mut mailbox) => return self.mbox(&mut mailbox, found, out),
                };
                let classified = self.filter.classify_message(&message, self.args.explain)?;
                found.last = Some(classified.status);
                self.file(OsStr::new("-"), &classified, out);
                Ok(())
            }
        }
    }

    /// Classifies the messages of the mbox on standard input.
    fn mbox(
        &self,
        mailbox: &mut Mailbox,
        found: &mut ClassifyTotals,
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let uids = select(mailbox, None)?.selected.uids;
        let mut told: Vec<(Uid, Classified)> = Vec::new();
        let source = Source::Mailbox(mailbox, &uids);
        self.filter.classify(source, self.args.explain, &mut |at, classified| {
            match (at, classified) {
                (At::Uid(uid), Ok(Some(classified))) => told.push((uid, classified)),
                (_, Err(error)) => found.failed.push(error.into()),
                _ => {}
            }
            Ok(())
        })?;
        found.last = told.last().map(|(_, classified)| classified.status).or(found.last);
        self.print(OsStr::new("-"), mailbox, &told, out)
    }

    fn mailbox(
        &self,
        name: &OsString,
        found: &mut ClassifyTotals,
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let mut mailbox = self.context.open(name)?;
        let SelectedMessages { selected, unreadable, attachments, .. } =
            select(&mut mailbox, self.selection)?;
        attachments.report(self.context);
        for uid in selected.missing {
            let path = name.clone().into();
            found.failed.push(barid::Error::NoSuchMessage { path, uid }.into());
        }
        for (uid, error) in unreadable {
            found.failed.push(anyhow::Error::new(error).context(format!("UID {uid}")));
        }
        let mut told: Vec<(Uid, Classified)> = Vec::new();
        let tell = &mut |at: At, classified: barid_spam::Result<Option<Classified>>| {
            let At::Uid(uid) = at else { return Ok(()) };
            match classified {
                Ok(Some(classified)) => told.push((uid, classified)),
                Ok(None) => {}
                Err(error) => {
                    let error = anyhow::Error::new(error).context(format!("UID {uid}"));
                    found.failed.push(error);
                }
            }
            Ok(())
        };
        if self.args.explain {
            let source = Source::Mailbox(&mut mailbox, &selected.uids);
            self.filter.classify(source, true, tell)?;
        } else {
            let (uids, rescore) = (&selected.uids, self.args.rescore);
            let scored = self.filter.classify_mailbox(&mut mailbox, uids, rescore, tell)?;
            found.older += scored.older;
        }
        found.last = told.last().map(|(_, classified)| classified.status).or(found.last);
        self.print(name, &mailbox, &told, out)
    }

    fn print(
        &self,
        name: &OsStr,
        mailbox: &Mailbox,
        told: &[(Uid, Classified)],
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        if self.context.global.json {
            for (uid, classified) in told {
                self.json(name, Some(*uid), classified, out);
            }
            return Ok(());
        }
        for told in told.chunks(SUBJECT_ROWS) {
            let mut rows = Vec::with_capacity(told.len());
            for (uid, _) in told {
                rows.extend(mailbox.row_of(*uid)?);
            }
            let mut subjects = Vec::with_capacity(rows.len());
            mailbox.summaries(&rows, &mut |message| {
                let subject = decode_words(message.fields.subject.unwrap_or_default());
                subjects.push((message.uid, visible(subject.as_bytes())));
                true
            })?;
            for (uid, classified) in told {
                let at = subjects.binary_search_by_key(uid, |(uid, _)| *uid);
                let subject = at.map_or("", |at| subjects[at].1.as_str());
                self.line(&format!("{:>6}  ", uid.get()), classified, subject, out);
            }
        }
        Ok(())
    }

    fn file(&self, name: &OsStr, classified: &Classified, out: &mut Vec<u8>) {
        if self.context.global.json {
            return self.json(name, None, classified, out);
        }
        let name = if name == "-" { String::new() } else { visible(name.as_encoded_bytes()) };
        self.line("", classified, &name, out);
    }

    /// Appends a line such as `    17  spam    1.000000  subject`.
    fn line(&self, before: &str, classified: &Classified, after: &str, out: &mut Vec<u8>) {
        let Classified { spamicity, status, .. } = classified;
        let text = format!("{before}{:<6}  {spamicity:.6}  {after}", name_of(*status));
        out.extend_from_slice(text.trim_end().as_bytes());
        out.push(b'\n');
        let Some(explained) = &classified.explained else { return };
        for token in &explained.tokens {
            let text = format!(
                "        {:.6}  {:>9} spam {:>9} ham  {}\n",
                token.probability,
                grouped(token.counts.spam.into()),
                grouped(token.counts.ham.into()),
                visible(&token.token)
            );
            out.extend_from_slice(text.as_bytes());
        }
    }

    fn json(&self, name: &OsStr, uid: Option<Uid>, found: &Classified, out: &mut Vec<u8>) {
        let mut json = Json::line(out, "spam_score");
        let key = if uid.is_some() { "mailbox" } else { "file" };
        json.key(key).bytes(name.as_encoded_bytes());
        if let Some(uid) = uid {
            json.key("uid").number(uid.get().into());
        }
        json.key("status").str(name_of(found.status));
        json.key("spamicity").real(found.spamicity);
        json.key("kept").bool(found.is_kept);
        json.key("generation").number(found.generation);
        json.key("used");
        match found.used {
            Some(used) => json.number(used as u64),
            None => json.null(),
        }
        if let Some(explained) = &found.explained {
            json.key("spam_messages").number(explained.totals.spam.into());
            json.key("ham_messages").number(explained.totals.ham.into());
            json.key("tokens").open(b'[');
            for token in &explained.tokens {
                json.open(b'{');
                json.key("token").bytes(&token.token);
                json.key("spam").number(token.counts.spam.into());
                json.key("ham").number(token.counts.ham.into());
                json.key("probability").real(token.probability);
                json.close(b'}');
            }
            json.close(b']');
        }
        json.end_line();
    }
}
