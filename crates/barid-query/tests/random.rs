//! Small random mailboxes in columns: duplicate and missing ids, loops, equal subjects and dates.

use barid_query::{KeyColumns, LinkColumns, NO_ID, ThreadColumns};
use fastrand::Rng;

/// Columns that own their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mailbox {
    pub(crate) ids: Vec<u32>,
    pub(crate) ref_ends: Vec<u32>,
    pub(crate) refs: Vec<u32>,
    pub(crate) id_count: u32,
    pub(crate) subjects: Vec<u32>,
    pub(crate) subject_count: u32,
    pub(crate) replies: Vec<bool>,
    pub(crate) dates: Vec<i64>,
}

impl Mailbox {
    pub(crate) fn random(random: &mut Rng, rows_max: u32) -> Self {
        let id_count = random.u32(1..=rows_max + 4);
        let mut mailbox = Self { id_count, subject_count: random.u32(1..5), ..Self::default() };
        let refs_max = random.u32(0..6);
        let days = random.i64(1..12);
        for _ in 0..random.u32(0..=rows_max) {
            let id = random.u32(..id_count);
            mailbox.ids.push(if random.u8(..8) == 0 { NO_ID } else { id });
            for _ in 0..random.u32(..=refs_max) {
                mailbox.refs.push(random.u32(..id_count));
            }
            mailbox.ref_ends.push(mailbox.refs.len() as u32);
            mailbox.subjects.push(random.u32(..mailbox.subject_count));
            mailbox.replies.push(random.bool());
            mailbox.dates.push(random.i64(-2..days));
        }
        mailbox
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn refs_of(&self, row: usize) -> &[u32] {
        let start = if row == 0 { 0 } else { self.ref_ends[row - 1] };
        &self.refs[start as usize..self.ref_ends[row] as usize]
    }

    /// Returns the link columns of the rows from `start` to `end`, with the ends recounted.
    pub(crate) fn links(&self, start: usize, end: usize) -> Mailbox {
        let first = if start == 0 { 0 } else { self.ref_ends[start - 1] };
        let last = if end == 0 { 0 } else { self.ref_ends[end - 1] };
        Mailbox {
            ids: self.ids[start..end].to_vec(),
            ref_ends: self.ref_ends[start..end].iter().map(|end| end - first).collect(),
            refs: self.refs[first as usize..last as usize].to_vec(),
            id_count: self.id_count,
            ..Mailbox::default()
        }
    }

    pub(crate) fn link_columns(&self) -> LinkColumns<'_> {
        LinkColumns {
            ids: &self.ids,
            ref_ends: &self.ref_ends,
            refs: &self.refs,
            id_count: self.id_count,
        }
    }

    pub(crate) fn columns(&self) -> ThreadColumns<'_> {
        ThreadColumns { links: self.link_columns(), keys: self.keys(self.len()) }
    }

    pub(crate) fn keys(&self, rows: usize) -> KeyColumns<'_> {
        KeyColumns {
            subjects: &self.subjects[..rows],
            subject_count: self.subject_count,
            replies: &self.replies[..rows],
            dates: &self.dates[..rows],
        }
    }
}
