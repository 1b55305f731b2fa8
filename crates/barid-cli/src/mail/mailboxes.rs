//! The mailboxes that a command reads, one or several.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf, absolute};

use barid::message::{Profile, message_id};
use barid::query::{NumberSet, SearchKey, SearchProgram};
use barid::vfs::OsVfs;
use barid::{FoundMessages, Mailbox, MailboxSpec, Summary, Uid, UidSet};
use clap::{Args, ValueHint};
use xxhash_rust::xxh3::Xxh3;

use crate::context::Context;
use crate::exit::{NotThere, Outcome, WithHint, report, report_unreadable};
use crate::mail::links::is_links_dir;
use crate::mail::selection::UnreadAttachments;
use crate::output::number::counted;

/// Options that name several mailboxes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MailboxesArgs {
    /// Read this mailbox, one of several; may be repeated
    #[arg(long = "in", value_name = "MAILBOX", value_hint = ValueHint::AnyPath)]
    mailboxes: Vec<OsString>,
    /// Read the mailboxes in DIR and below, as `barid folders` lists them; may be repeated
    #[arg(long = "tree", value_name = "DIR", value_hint = ValueHint::DirPath)]
    trees: Vec<PathBuf>,
    /// Also show further copies of a message
    ///
    /// Copies have its Message-ID, sender and date.
    #[arg(long)]
    duplicates: bool,
}

/// A mailbox, and what was found in it.
pub(crate) struct FoundMailbox {
    /// Its name on the command line, or its path in a tree.
    pub(crate) name: OsString,
    pub(crate) mailbox: Mailbox,
    /// The rows of the messages that match, ascending.
    pub(crate) rows: Vec<u32>,
    unreadable: UnreadableMessages,
    attachments: UnreadAttachments,
    /// Number of messages that were read for the search.
    pub(crate) read: u32,
}

/// Messages that could not be read, with the errors.
pub(crate) type UnreadableMessages = Vec<(Uid, barid::Error)>;

impl FoundMailbox {
    /// Returns a mailbox with the rows that were found.
    pub(crate) fn new(name: &OsStr, mailbox: Mailbox, rows: Vec<u32>) -> Self {
        let (unreadable, attachments) = (Vec::new(), UnreadAttachments::default());
        Self { name: name.to_owned(), mailbox, rows, unreadable, attachments, read: 0 }
    }

    /// Returns a mailbox with the result of a search.
    fn found(
        name: &OsStr,
        mailbox: Mailbox,
        (program, found): (&SearchProgram, FoundMessages),
    ) -> Self {
        let (attachments, read) = (UnreadAttachments::of(program, &found), found.read);
        let mut part = Self { attachments, read, ..Self::new(name, mailbox, found.rows) };
        part.add_unreadable(found.unreadable);
        part
    }

    /// Adds messages that could not be read, each once.
    pub(crate) fn add_unreadable(&mut self, unreadable: UnreadableMessages) {
        let known: HashSet<Uid> = self.unreadable.iter().map(|(uid, _)| *uid).collect();
        self.unreadable.extend(unreadable.into_iter().filter(|(uid, _)| !known.contains(uid)));
    }
}

/// The mailboxes that were searched.
pub(crate) struct FoundMailboxes {
    pub(crate) parts: Vec<FoundMailbox>,
    /// `true` if several may be, so that each message is printed with its own.
    pub(crate) is_many: bool,
    /// Mailboxes of which many messages were read that an index would have answered for.
    pub(crate) unindexed: Vec<MailboxSpec>,
}

impl MailboxesArgs {
    /// Returns `true` if mailboxes are named by these options.
    pub(crate) fn is_many(&self) -> bool {
        !self.mailboxes.is_empty() || !self.trees.is_empty()
    }

    /// Returns the mailbox of a command that reads this one alone.
    pub(crate) fn one<'m>(&self, mailbox: &'m Option<OsString>) -> Option<&'m OsStr> {
        mailbox.as_deref().filter(|_| !self.is_many())
    }

    /// Returns the words of a query: with these options the query begins in the place of the
    /// mailbox.
    ///
    /// # Errors
    ///
    /// Returns an error if the first is not UTF-8.
    pub(crate) fn words(
        &self,
        mailbox: Option<&OsStr>,
        rest: &[String],
    ) -> anyhow::Result<Vec<String>> {
        let mut words = Vec::new();
        if let Some(first) = mailbox.filter(|_| self.is_many()) {
            let text = first.to_str().ok_or_else(|| {
                WithHint::error("the query is not UTF-8", "type it in a UTF-8 locale")
            })?;
            words.push(text.to_owned());
        }
        words.extend_from_slice(rest);
        Ok(words)
    }

    /// Checks that --duplicates is for several mailboxes.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.duplicates && !self.is_many() {
            let hint = "name the mailboxes with --in or --tree";
            return Err(WithHint::error("--duplicates is for several mailboxes", hint));
        }
        Ok(())
    }

    /// Returns `true` if all copies of a message are shown.
    pub(crate) fn shows_copies(&self) -> bool {
        self.duplicates
    }

    /// Searches each mailbox, and leaves out copies. With `needs_size` all sizes (RFC822.SIZE) are
    /// known after that. One of several that fails is reported, and the others are searched.
    pub(crate) fn search(
        &self,
        context: &Context,
        program: &SearchProgram,
        needs_size: bool,
    ) -> anyhow::Result<(FoundMailboxes, Outcome)> {
        let (mut all, outcome) = self.search_each(context, program, needs_size)?;
        if !self.duplicates {
            let left_out = leave_out_copies(&mut all.parts)?;
            if left_out > 0 {
                let copies = counted(left_out, "copy");
                context.detail(&format!("{copies} left out: --duplicates shows them"));
            }
        }
        Ok((all, outcome))
    }

    /// Searches as [`MailboxesArgs::search`] does, and leaves out no copies.
    pub(crate) fn search_all(
        &self,
        context: &Context,
        program: &SearchProgram,
    ) -> anyhow::Result<(FoundMailboxes, Outcome)> {
        self.search_each(context, program, false)
    }

    fn search_each(
        &self,
        context: &Context,
        program: &SearchProgram,
        needs_size: bool,
    ) -> anyhow::Result<(FoundMailboxes, Outcome)> {
        let mut all = FoundMailboxes { parts: Vec::new(), is_many: true, unindexed: Vec::new() };
        let mut outcome = Outcome::Done;
        for (name, spec) in self.specs(context, None)? {
            let program = in_mailbox(program, &name, &spec);
            let found = context.open_spec_and(&spec, |mailbox| {
                let unread = if needs_size { mailbox.fill_rfc822_sizes()? } else { Vec::new() };
                Ok((mailbox.search(&program, &UidSet::new())?, unread))
            });
            match found {
                Ok((mailbox, (found, unread))) => {
                    all.unindexed.extend(found.index_missing.then_some(spec));
                    let mut part = FoundMailbox::found(&name, mailbox, (&program, found));
                    part.add_unreadable(unread);
                    all.parts.push(part);
                }
                Err(error) => {
                    report(context, &error);
                    outcome = Outcome::Incomplete;
                }
            }
        }
        Ok((all, outcome))
    }

    /// Returns the mailboxes, each once, without one that is read already.
    pub(crate) fn specs(
        &self,
        context: &Context,
        already: Option<&MailboxSpec>,
    ) -> anyhow::Result<Vec<(OsString, MailboxSpec)>> {
        let path_of =
            |spec: &MailboxSpec| absolute(&spec.path).unwrap_or_else(|_| spec.path.clone());
        let mut known: HashSet<PathBuf> = already.map(path_of).into_iter().collect();
        let mut specs = Vec::new();
        let mut add = |name: OsString, spec: MailboxSpec| {
            if known.insert(path_of(&spec)) {
                specs.push((name, spec));
            }
        };
        for name in &self.mailboxes {
            add(name.clone(), context.spec(name)?);
        }
        for dir in &self.trees {
            let dir = &context.spec(dir.as_os_str())?.path;
            let below = mailboxes_below(dir, &|_| true)?;
            if below.is_empty() {
                return Err(no_mailbox_below(dir));
            }
            for spec in below {
                add(spec.path.clone().into_os_string(), spec);
            }
        }
        Ok(specs)
    }
}

impl FoundMailboxes {
    /// Returns the first of several mailboxes.
    pub(crate) fn of(first: FoundMailbox) -> Self {
        Self { parts: vec![first], is_many: true, unindexed: Vec::new() }
    }

    /// Searches one mailbox.
    pub(crate) fn one(
        context: &Context,
        name: &OsStr,
        program: &SearchProgram,
    ) -> anyhow::Result<Self> {
        let spec = context.spec(name)?;
        let (mailbox, found) =
            context.open_spec_and(&spec, |mailbox| mailbox.search(program, &UidSet::new()))?;
        let unindexed = found.index_missing.then_some(spec).into_iter().collect();
        let part = FoundMailbox::found(name, mailbox, (program, found));
        Ok(Self { parts: vec![part], is_many: false, unindexed })
    }

    /// Reports the messages and attachments that could not be read, and returns the outcome of the
    /// command, for which messages were chosen.
    pub(crate) fn outcome(mut self, context: &Context, outcome: Outcome) -> Outcome {
        let is_empty = self.parts.iter().all(|part| part.rows.is_empty());
        self.report(context, outcome.worse(Outcome::nothing_if(is_empty)))
    }

    /// Reports the messages and attachments that could not be read.
    pub(crate) fn report(&mut self, context: &Context, outcome: Outcome) -> Outcome {
        let attachments = self.parts.iter().map(|part| part.attachments);
        attachments.reduce(UnreadAttachments::and).unwrap_or_default().report(context);
        let unreadable = self.parts.iter_mut().map(|part| std::mem::take(&mut part.unreadable));
        unreadable.fold(outcome, |worst, all| worst.worse(report_unreadable(context, all)))
    }
}

/// Returns the mailboxes in a folder and below it whose paths are wanted, as `barid folders` lists
/// them. Folders of links are left out: their messages are found where they are.
pub(crate) fn mailboxes_below(
    dir: &Path,
    is_wanted: &dyn Fn(&Path) -> bool,
) -> barid::Result<Vec<MailboxSpec>> {
    let folders = barid::folders(&OsVfs, dir)?.into_iter();
    let mailboxes = folders.filter(|folder| folder.format.is_some() && is_wanted(&folder.path));
    let specs = mailboxes.filter(|folder| !is_links_dir(&folder.path));
    Ok(specs.map(|folder| MailboxSpec { format: None, path: folder.path }).collect())
}

/// Returns the error for a folder without a mailbox.
pub(crate) fn no_mailbox_below(dir: &Path) -> anyhow::Error {
    let message = format!("{}: no mailbox in this folder or below it", dir.display());
    NotThere::error(message, "name a folder with Maildirs or mailbox files")
}

/// Leaves the first of messages that are copies of each other, and returns the number of others:
/// those with the same Message-ID, sender and date.
fn leave_out_copies(parts: &mut [FoundMailbox]) -> barid::Result<u64> {
    let (mut seen, mut left_out) = (HashSet::new(), 0);
    for FoundMailbox { mailbox, rows, .. } in parts {
        let mut first = Vec::with_capacity(rows.len());
        mailbox.summaries(rows, &mut |summary| {
            match copy_key(summary).is_none_or(|key| seen.insert(key)) {
                true => first.push(summary.row),
                false => left_out += 1,
            }
            true
        })?;
        *rows = first;
    }
    Ok(left_out)
}

/// Returns what is the same in all copies of a message; `None` for one without a Message-ID.
fn copy_key(summary: &Summary<'_>) -> Option<u128> {
    let fields = &summary.fields;
    let id = message_id(fields.message_id?, Profile::Rfc)?;
    let (from, date) = (fields.from.unwrap_or_default(), fields.date.unwrap_or_default());
    let mut key = Xxh3::new();
    for part in [&*id, from.trim_ascii(), date.trim_ascii()] {
        key.update(&(part.len() as u64).to_le_bytes());
        key.update(part);
    }
    Some(key.digest128())
}

/// Returns the program with `in:` decided for a mailbox.
fn in_mailbox(program: &SearchProgram, name: &OsStr, spec: &MailboxSpec) -> SearchProgram {
    // A name of the configuration, and the mailbox that it stands for.
    let bare = name.as_bytes().strip_prefix(b"@").unwrap_or(name.as_bytes());
    let names = [OsStr::from_bytes(bare), spec.path.as_os_str()];
    program.map_keys(&mut |key| match key {
        SearchKey::InMailbox(wanted) if names.iter().any(|name| is_named(name, wanted)) => {
            SearchKey::All
        }
        SearchKey::InMailbox(_) => SearchKey::Uid(NumberSet::default()),
        key => key.clone(),
    })
}

/// Returns `true` if a name ends with the levels of another, in any case. The dots of Maildir++
/// separate levels as slashes do.
fn is_named(name: &OsStr, wanted: &str) -> bool {
    let levels = |name: &str| {
        let mut levels: Vec<String> = Vec::new();
        for level in name.split('/').filter(|level| !level.is_empty()) {
            match level.strip_prefix('.') {
                Some(dotted) if !dotted.is_empty() => {
                    levels.extend(dotted.split('.').map(str::to_lowercase));
                }
                _ => levels.push(level.to_lowercase()),
            }
        }
        levels
    };
    let wanted = levels(wanted);
    !wanted.is_empty() && levels(&name.to_string_lossy()).ends_with(&wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_named_by_its_last_levels() {
        let check = |name: &str, wanted: &str, expected: bool| {
            assert_eq!(is_named(OsStr::new(name), wanted), expected, "{name} {wanted}");
        };
        check("/home/ann/mail/lists/rust", "rust", true);
        check("/home/ann/mail/lists/rust", "Lists/Rust", true);
        check("/home/ann/mail/lists/rust", "lists", false);
        check("/home/ann/mail/lists/rust", "ust", false);
        check("/home/ann/Maildir/.lists.rust", "lists/rust", true);
        check("/home/ann/Maildir/.lists.rust", "rust", true);
        check("archive.mbox", "archive.mbox", true);
        check("a/", "a", true);
        check("a", "", false);
    }
}
