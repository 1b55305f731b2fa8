//! The mailboxes that are searched, one or several.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use barid::message::{Profile, message_id};
use barid::query::{NumberSet, SearchKey, SearchProgram};
use barid::vfs::OsVfs;
use barid::{Mailbox, MailboxSpec, Uid, UidSet};

use super::SearchedArgs;
use crate::commands::index;
use crate::context::Context;
use crate::exit::{NotThere, Outcome, WithHint, report, report_unreadable};
use crate::mail::query::Query;
use crate::output::number::counted;

/// A mailbox, and what was found in it.
pub(super) struct SearchedMailbox {
    /// Its name on the command line, or its path in a tree.
    pub(super) name: OsString,
    pub(super) mailbox: Mailbox,
    /// The rows of the messages that match, ascending.
    pub(super) rows: Vec<u32>,
    pub(super) unreadable: Vec<(Uid, barid::Error)>,
}

/// The mailboxes that were searched.
pub(super) struct Mailboxes {
    pub(super) parts: Vec<SearchedMailbox>,
    /// `true` if several may be, so that each message is printed with its own.
    pub(super) is_many: bool,
}

impl SearchedArgs {
    /// Returns the words of the query.
    pub(super) fn words(&self) -> anyhow::Result<Vec<String>> {
        let mut words = Vec::new();
        if self.is_many()
            && let Some(first) = &self.mailbox
        {
            let text = first.to_str().ok_or_else(|| {
                WithHint::error("the query is not UTF-8", "type it in a UTF-8 locale")
            })?;
            words.push(text.to_owned());
        }
        words.extend_from_slice(&self.query);
        Ok(words)
    }

    fn is_many(&self) -> bool {
        !self.mailboxes.is_empty() || !self.trees.is_empty()
    }

    /// Parses the query.
    pub(super) fn query(&self, context: &Context, words: &[String]) -> anyhow::Result<Query> {
        match self.is_many() {
            true => self.options.parse_for_mailboxes(&context.config, words),
            false => self.options.parse(&context.config, words),
        }
    }

    /// Searches each mailbox. One of several that fails is reported, and the others are searched.
    pub(super) fn search(
        &self,
        context: &Context,
        program: &SearchProgram,
    ) -> anyhow::Result<(Mailboxes, Outcome)> {
        let is_many = self.is_many();
        if self.duplicates && !is_many {
            let hint = "name the mailboxes with --in or --tree";
            return Err(WithHint::error("--duplicates is for several mailboxes", hint));
        }
        if let (Some(name), false) = (&self.mailbox, is_many) {
            let spec = context.spec(name)?;
            let (mailbox, found) =
                context.open_spec_and(&spec, |mailbox| mailbox.search(program, &UidSet::new()))?;
            if found.index_missing {
                index::build_in_background(context, &[spec]);
            }
            let (rows, unreadable) = (found.rows, found.unreadable);
            let parts = vec![SearchedMailbox { name: name.clone(), mailbox, rows, unreadable }];
            return Ok((Mailboxes { parts, is_many }, Outcome::Done));
        }
        let (mut parts, mut outcome) = (Vec::new(), Outcome::Done);
        let mut unindexed = Vec::new();
        for (name, spec) in self.specs(context)? {
            let program = in_mailbox(program, &name, &spec);
            let found =
                context.open_spec_and(&spec, |mailbox| mailbox.search(&program, &UidSet::new()));
            match found {
                Ok((mailbox, found)) => {
                    unindexed.extend(found.index_missing.then_some(spec));
                    let (rows, unreadable) = (found.rows, found.unreadable);
                    parts.push(SearchedMailbox { name, mailbox, rows, unreadable });
                }
                Err(error) => {
                    report(context, &error);
                    outcome = Outcome::Incomplete;
                }
            }
        }
        if !self.duplicates {
            let left_out = leave_out_copies(&mut parts)?;
            if left_out > 0 {
                let copies = counted(left_out, "copy");
                context.detail(&format!("{copies} left out: --duplicates shows them"));
            }
        }
        if !unindexed.is_empty() {
            index::build_in_background(context, &unindexed);
        }
        Ok((Mailboxes { parts, is_many }, outcome))
    }

    /// Returns the mailboxes, each once.
    fn specs(&self, context: &Context) -> anyhow::Result<Vec<(OsString, MailboxSpec)>> {
        let mut specs: Vec<(OsString, MailboxSpec)> = Vec::new();
        let mut add = |name: OsString, spec: MailboxSpec| {
            if specs.iter().all(|(_, known)| known.path != spec.path) {
                specs.push((name, spec));
            }
        };
        for name in &self.mailboxes {
            add(name.clone(), context.spec(name)?);
        }
        for dir in &self.trees {
            let dir = &context.spec(dir.as_os_str())?.path;
            let folders = barid::folders(&OsVfs, dir)?;
            let mut mailboxes = folders.into_iter().filter(|folder| folder.format.is_some());
            let Some(first) = mailboxes.next() else {
                let message = format!("{}: no mailbox in this folder or below it", dir.display());
                return Err(NotThere::error(message, "name a folder with mailboxes"));
            };
            for folder in [first].into_iter().chain(mailboxes) {
                let spec = MailboxSpec { format: None, path: folder.path };
                add(spec.path.clone().into_os_string(), spec);
            }
        }
        Ok(specs)
    }
}

impl Mailboxes {
    /// Reports the messages that could not be read, and returns the outcome of the command.
    pub(super) fn outcome(self, context: &Context, outcome: Outcome) -> Outcome {
        let is_empty = self.parts.iter().all(|part| part.rows.is_empty());
        let outcome = outcome.worse(Outcome::nothing_if(is_empty));
        let unreadable = self.parts.into_iter().map(|part| part.unreadable);
        unreadable.fold(outcome, |worst, all| worst.worse(report_unreadable(context, all)))
    }
}

/// Leaves the first message of each Message-ID; returns the number of others.
fn leave_out_copies(parts: &mut [SearchedMailbox]) -> barid::Result<u64> {
    let (mut seen, mut left_out) = (HashSet::new(), 0);
    for SearchedMailbox { mailbox, rows, .. } in parts {
        let mut first = Vec::with_capacity(rows.len());
        mailbox.summaries(rows, &mut |summary| {
            let id = summary.fields.message_id.and_then(|raw| message_id(raw, Profile::Rfc));
            match id.is_none_or(|id| seen.insert(id.into_owned())) {
                true => first.push(summary.row),
                false => left_out += 1,
            }
            true
        })?;
        *rows = first;
    }
    Ok(left_out)
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
