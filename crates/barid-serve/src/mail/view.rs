//! Views of the library as views of a session.

use std::sync::Arc;

use barid::query::SearchProgram;
use barid::{
    Flag, FlagSet, InternalDate, MailboxChange, MessageMarks, ModSeq, SortProgram, ThreadAlgorithm,
    Threads, Uid, UidSet, View, Window,
};
use barid_imap::backend::{
    Answer, FetchStyle, Fetched, MailView, MessageFlags, ModSeqChanges, Output, ViewChange,
    ViewNumbers,
};
use barid_imap::fetch::FetchItems;

use super::indexing::Indexing;
use super::refusal::refused;

/// A view of a served mailbox.
#[derive(Clone)]
pub struct ServedView {
    pub(crate) view: View,
    pub(crate) indexing: Arc<Indexing>,
}

impl ServedView {
    fn flags(&self, marks: &MessageMarks) -> MessageFlags {
        let keywords = self.view.keywords().select(marks.keywords);
        MessageFlags {
            uid: marks.uid,
            flags: marks.flags.without(Flag::Recent),
            keywords: keywords.map(|keyword| keyword.as_str().to_owned()).collect(),
            modseq: marks.modseq,
        }
    }
}

impl MailView for ServedView {
    fn numbers(&self) -> Answer<ViewNumbers> {
        let status = self.view.view_status();
        Ok(ViewNumbers {
            exists: status.messages,
            unseen: status.unseen,
            uidvalidity: status.uidvalidity,
            uidnext: status.uidnext,
            // A client that is given 0 thinks that there are no mod-sequences.
            highest_modseq: status.highest_modseq.max(ModSeq::new(1).unwrap_or_default()),
        })
    }

    fn len(&self) -> u32 {
        self.view.len()
    }

    fn is_listed(&self) -> bool {
        self.view.is_listed()
    }

    fn uid_of(&self, row: u32) -> Answer<Uid> {
        self.view.uid_of(row).map_err(refused)
    }

    fn uids_of(&self, rows: &[u32]) -> Answer<Vec<Uid>> {
        self.view.uids_of(rows).map_err(refused)
    }

    fn row_from(&self, uid: Uid) -> Answer<u32> {
        self.view.row_from(uid).map_err(refused)
    }

    fn uids_in(&self, ranges: &[(u32, u32)], by_number: bool) -> Answer<Vec<Uid>> {
        self.view.uids_in(ranges, by_number).map_err(refused)
    }

    fn keywords(&self) -> Vec<String> {
        self.view.keywords().names().iter().map(|keyword| keyword.as_str().to_owned()).collect()
    }

    fn first_with(&self, flag: Flag, has: bool) -> Answer<Option<u32>> {
        if flag == Flag::Seen && !has && self.view.view_status().unseen == 0 {
            return Ok(None);
        }
        self.view.first_row(flag, has).map_err(refused)
    }

    fn uids_with(&self, flag: Flag) -> Answer<Vec<Uid>> {
        self.view.uids_with(flag).map_err(refused)
    }

    fn flags_of(&self, uids: &[Uid]) -> Answer<Vec<MessageFlags>> {
        let marks = self.view.marks_of(uids).map_err(refused)?;
        Ok(marks.iter().map(|marks| self.flags(marks)).collect())
    }

    fn changes_since(&self, before: &Self) -> Answer<Vec<ViewChange>> {
        let changes = self.view.changes_since(&before.view).map_err(refused)?;
        let change = |change| match change {
            MailboxChange::Renumbered(_) => ViewChange::Renumbered,
            MailboxChange::Expunged(uid) => ViewChange::Expunged(uid),
            MailboxChange::Flags(uid) => ViewChange::Flags(uid),
            MailboxChange::ModSeq(uid) => ViewChange::ModSeq(uid),
            MailboxChange::New(uid) => ViewChange::New(uid),
        };
        Ok(changes.into_iter().map(change).collect())
    }

    fn changes_since_modseq(&self, modseq: ModSeq) -> Answer<ModSeqChanges> {
        let changes = self.view.changes_since_modseq(modseq).map_err(refused)?;
        Ok(ModSeqChanges { changed: changes.changed, vanished: changes.vanished })
    }

    fn fetch(
        &self,
        uids: &[Uid],
        items: &FetchItems,
        style: &FetchStyle<'_>,
        out: &mut dyn Output,
    ) -> Answer<Fetched> {
        let write = |message: &barid::fetch::Fetched<'_>, out: &mut Vec<u8>| {
            let uid = message.summary.uid;
            let number = (style.number_of)(uid, message.summary.row);
            if number > 0 && style.uid_only {
                message.write_imap_by_uid(Some((style.is_recent)(uid)), out);
            } else if number > 0 {
                message.write_imap_as(number, Some((style.is_recent)(uid)), out);
            }
        };
        let mut is_stopped = false;
        let mut take = |bytes: &mut Vec<u8>| {
            is_stopped = !out.write_buffer(bytes);
            !is_stopped
        };
        let report = self.view.fetch(uids, items, &write, &mut take).map_err(refused)?;
        let mut fetched = Fetched { gone: report.gone, is_stopped, ..Fetched::default() };
        for (uid, error) in report.unreadable {
            match error {
                barid::Error::UnknownEncoding { .. } => fetched.unknown_encoding.push(uid),
                error => fetched.unreadable.push((uid, error.to_string())),
            }
        }
        Ok(fetched)
    }

    fn search(&self, program: &SearchProgram, saved: &UidSet) -> Answer<Vec<u32>> {
        let found = self.view.search(program, saved).map_err(refused)?;
        if found.index_missing {
            self.indexing.begin(&self.view);
        }
        match found.unreadable.into_iter().next() {
            // An answer that leaves a message out in silence would be wrong.
            Some((_, error)) => Err(refused(error)),
            None => Ok(found.rows),
        }
    }

    fn sort(&self, program: &SortProgram) -> Answer<Vec<u32>> {
        Ok(self.view.sorted(program, Window::All).map_err(refused)?.rows)
    }

    fn threads(&self, algorithm: ThreadAlgorithm, among: Option<&[u32]>) -> Answer<Threads> {
        match among {
            None => self.view.threads(algorithm),
            Some(rows) => self.view.threads_among(algorithm, rows),
        }
        .map_err(refused)
    }

    fn internal_date(&self, uid: Uid) -> Answer<Option<InternalDate>> {
        let Some(row) = self.view.row_of(uid).map_err(refused)? else { return Ok(None) };
        let mut date = None;
        let visit = &mut |summary: &barid::Summary<'_>| {
            date = Some(summary.internal_date);
            false
        };
        self.view.summaries(&[row], visit).map_err(refused)?;
        Ok(date)
    }
}

/// Flags of a session's change that are removed when all flags are replaced.
pub(crate) fn complement(flags: FlagSet) -> FlagSet {
    let replaceable = Flag::ALL.into_iter().filter(|flag| *flag != Flag::Recent);
    replaceable.filter(|flag| !flags.contains(*flag)).collect()
}
