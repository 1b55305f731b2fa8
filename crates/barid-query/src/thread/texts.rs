//! The columns of threading from the texts of header fields, for messages of any number of
//! mailboxes: their hashes are those of one cache each, and their texts are the same everywhere.

use std::collections::HashMap;

use barid_message::{HeaderFields, Profile, SubjectScratch};

use super::link::NONE;
use super::{KeyColumns, LinkColumns, NO_ID, ThreadAlgorithm, ThreadColumns, Threads, threads};
use crate::QueryError;

/// Dense numbers of texts.
#[derive(Debug, Default)]
struct TextMap(HashMap<Vec<u8>, u32>);

impl TextMap {
    fn number(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.0.get(text) {
            return *number;
        }
        let number = self.0.len() as u32;
        self.0.insert(text.to_vec(), number);
        number
    }
}

/// Messages to be threaded, by the texts of their fields. All ids and base subjects are in memory,
/// each once.
#[derive(Debug)]
pub struct ThreadTexts {
    algorithm: ThreadAlgorithm,
    profile: Profile,
    ids: TextMap,
    subjects: TextMap,
    /// `true` if subjects are numbered without regard to the case of ASCII letters.
    folds: bool,
    /// Each message's own id.
    id_of: Vec<u32>,
    ref_ends: Vec<u32>,
    refs: Vec<u32>,
    /// For each id the first row that has it as its own; those of later ids may be missing.
    row_of: Vec<u32>,
    subject_of: Vec<u32>,
    replies: Vec<bool>,
    dates: Vec<i64>,
    scratch: SubjectScratch,
}

impl ThreadTexts {
    /// Creates columns without messages.
    #[must_use]
    pub fn new(algorithm: ThreadAlgorithm, profile: Profile) -> Self {
        let mut subjects = TextMap::default();
        subjects.number(b"");
        Self {
            algorithm,
            profile,
            ids: TextMap::default(),
            subjects,
            // c-client compares subjects once more without regard to case where only they decide.
            folds: profile == Profile::CClient && algorithm == ThreadAlgorithm::OrderedSubject,
            id_of: Vec::new(),
            ref_ends: Vec::new(),
            refs: Vec::new(),
            row_of: Vec::new(),
            subject_of: Vec::new(),
            replies: Vec::new(),
            dates: Vec::new(),
            scratch: SubjectScratch::default(),
        }
    }

    /// Returns the number of messages, which is the row of the next.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.dates.len() as u32
    }

    /// Returns the row of the first message that has the Message-ID of another one.
    #[must_use]
    pub fn row_with_id_of(&self, fields: &HeaderFields<'_>) -> Option<u32> {
        let id = barid_message::message_id(fields.message_id?, self.profile)?;
        let number = *self.ids.0.get(&*id)?;
        self.row_of.get(number as usize).copied().filter(|row| *row != NONE)
    }

    /// Adds a message: its fields and the date by which it is ordered, in seconds since 1970.
    pub fn push(&mut self, fields: &HeaderFields<'_>, date: i64) {
        let (row, profile) = (self.rows(), self.profile);
        let own = fields.message_id.and_then(|raw| barid_message::message_id(raw, profile));
        let own = own.map_or(NO_ID, |id| self.ids.number(&id));
        self.id_of.push(own);
        let (ids, refs) = (&mut self.ids, &mut self.refs);
        let before = refs.len();
        let references = fields.references.unwrap_or_default();
        barid_message::message_ids(references, profile, &mut |id| refs.push(ids.number(id)));
        if refs.len() == before {
            let parent = fields.in_reply_to.and_then(|raw| barid_message::message_id(raw, profile));
            refs.extend(parent.map(|id| ids.number(&id)));
        }
        self.ref_ends.push(refs.len() as u32);
        if own != NO_ID {
            let known = self.row_of.len().max(own as usize + 1);
            self.row_of.resize(known, NONE);
            let first = &mut self.row_of[own as usize];
            *first = row.min(*first);
        }
        let subject = fields.subject.unwrap_or_default();
        let (base, reply) = barid_message::base_subject_into(subject, profile, &mut self.scratch);
        self.subject_of.push(match self.folds {
            true => self.subjects.number(&base.to_ascii_lowercase()),
            false => self.subjects.number(base),
        });
        self.replies.push(reply);
        self.dates.push(date);
    }

    /// Returns the threads of all messages.
    ///
    /// # Errors
    /// [`QueryError::TooMany`] beyond [`crate::limits`].
    pub fn threads(&self) -> Result<Threads, QueryError> {
        let columns = ThreadColumns {
            links: LinkColumns {
                ids: &self.id_of,
                ref_ends: &self.ref_ends,
                refs: &self.refs,
                id_count: self.ids.0.len() as u32,
            },
            keys: KeyColumns {
                subjects: &self.subject_of,
                subject_count: self.subjects.0.len() as u32,
                replies: &self.replies,
                dates: &self.dates,
            },
        };
        threads(self.algorithm, &columns, self.profile)
    }
}

#[cfg(test)]
mod tests {
    use barid_message::HeaderScan;

    use super::*;

    #[test]
    fn messages_are_joined_by_their_ids() {
        let mut texts = ThreadTexts::new(ThreadAlgorithm::References, Profile::Rfc);
        let mut push = |header: &str, date| {
            let scan = HeaderScan::new(header.as_bytes());
            let known = texts.row_with_id_of(&scan.fields);
            texts.push(&scan.fields, date);
            known
        };
        assert_eq!(push("Message-ID: <b@x>\nReferences: <a@x>\nSubject: Re: s\n\n", 2), None);
        assert_eq!(push("Message-ID: <c@x>\nSubject: t\n\n", 3), None);
        assert_eq!(push("Message-ID: <a@x>\nSubject: s\n\n", 1), None);
        assert_eq!(push("Message-ID: <b@x>\nIn-Reply-To: <a@x>\nSubject: Re: s\n\n", 4), Some(0));
        assert_eq!(push("Message-ID: <b@x>\n\n", 5), Some(0));
        assert_eq!(push("Subject: t\n\n", 6), None);
        let threads = texts.threads().unwrap();
        let mut out = Vec::new();
        threads.write_imap(|row| row + 1, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "(3 (1)(4))((2)(6))(5)");
    }
}
