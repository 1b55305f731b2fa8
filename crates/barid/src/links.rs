//! The columns of numbers that threading needs of a mailbox, stored so that they can be extended.
//!
//! Message ids and base subjects come from the cache as hashes and become dense numbers here. Two
//! texts with one hash are noticed ([`Collision`]); then [`threads_of_texts`] numbers the texts
//! themselves.

use std::ops::Range;

use barid_cache::{Core, IdHash, Snapshot, ThreadView};
use barid_message::{HeaderFields, Profile};
use barid_query::{
    Collision, Interner, KeyColumns, LinkColumns, NO_ID, QueryError, ThreadAlgorithm, ThreadState,
    ThreadTexts, Threads, threads_by_subject, threads_from_state,
};
use barid_vfs::le::{LeReader, PutLe};

use crate::Result;

/// The columns of all rows so far, and the links between their messages.
pub(crate) struct Links {
    state: ThreadState,
    ids: Numbers,
    subjects: Numbers,
    subject_of: Vec<u32>,
    replies: Vec<bool>,
    dates: Vec<i64>,
}

/// Dense numbers of hashes, and the hashes by number.
struct Numbers {
    interner: Interner,
    hashes: Vec<IdHash>,
}

impl Numbers {
    fn new(seed: u64) -> Self {
        Self { interner: Interner::with_seed(0, seed), hashes: Vec::new() }
    }

    #[inline]
    fn number(&mut self, id: IdHash) -> std::result::Result<u32, Collision> {
        let number = self.interner.intern(id.hash, id.check)?;
        if number as usize == self.hashes.len() {
            self.hashes.push(id);
        }
        Ok(number)
    }
}

/// The link columns of rows to be added.
#[derive(Default)]
struct NewLinks {
    ids: Vec<u32>,
    ref_ends: Vec<u32>,
    refs: Vec<u32>,
}

impl NewLinks {
    fn push(
        &mut self,
        view: &ThreadView<'_>,
        ids: &mut Numbers,
    ) -> std::result::Result<(), Collision> {
        self.ids.push(view.message_id.map_or(Ok(NO_ID), |id| ids.number(id))?);
        for reference in view.references {
            self.refs.push(ids.number(*reference)?);
        }
        self.ref_ends.push(self.refs.len() as u32);
        Ok(())
    }

    fn columns(&self, id_count: u32) -> LinkColumns<'_> {
        LinkColumns { ids: &self.ids, ref_ends: &self.ref_ends, refs: &self.refs, id_count }
    }
}

impl Links {
    /// Creates links without rows; `seed` is the cache's.
    pub(crate) fn new(seed: u64) -> Self {
        let mut subjects = Numbers::new(seed);
        // Number 0 is the empty subject, whose hash is all zeros.
        subjects.number(IdHash::default()).expect("because the first text collides with none");
        Self {
            state: ThreadState::new(Profile::Rfc),
            ids: Numbers::new(seed),
            subjects,
            subject_of: Vec::new(),
            replies: Vec::new(),
            dates: Vec::new(),
        }
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u32 {
        self.state.rows()
    }

    /// Adds the rows that follow; the inner `Err` is a collision, after which `self` must not be
    /// used.
    pub(crate) fn extend(
        &mut self,
        snapshot: &Snapshot,
        rows: Range<u32>,
    ) -> Result<std::result::Result<(), Collision>> {
        let mut new = NewLinks::default();
        let mut collision = Ok(());
        snapshot.thread_rows(rows, &mut |_, view| {
            if collision.is_ok() {
                collision = new.push(view, &mut self.ids).and_then(|()| self.push_keys(view));
            }
        })?;
        if collision.is_ok() {
            let columns = new.columns(self.ids.interner.len());
            self.state.extend(&columns).expect("because the columns were made together");
        }
        Ok(collision)
    }

    fn push_keys(&mut self, view: &ThreadView<'_>) -> std::result::Result<(), Collision> {
        let subject = view.subject.map_or(Ok(0), |subject| self.subjects.number(subject))?;
        self.subject_of.push(subject);
        self.replies.push(view.is_reply);
        self.dates.push(view.date);
        Ok(())
    }

    /// Returns the threads of all rows.
    pub(crate) fn threads(&self, algorithm: ThreadAlgorithm) -> Threads {
        let keys = KeyColumns {
            subjects: &self.subject_of,
            subject_count: self.subjects.hashes.len() as u32,
            replies: &self.replies,
            dates: &self.dates,
        };
        match algorithm {
            ThreadAlgorithm::OrderedSubject => threads_by_subject(&keys),
            algorithm => threads_from_state(algorithm, &self.state, &keys),
        }
        .expect("because the columns were made together")
    }

    /// Serializes everything (`docs/formats/derived.md`).
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_long_bytes(&self.state.to_bytes());
        for numbers in [&self.ids, &self.subjects] {
            out.put_u64(numbers.hashes.len() as u64);
            for id in &numbers.hashes {
                out.put_u64(id.hash);
                out.put_u32(id.check);
            }
        }
        out.put_u64(self.dates.len() as u64);
        for ((subject, reply), date) in self.subject_of.iter().zip(&self.replies).zip(&self.dates) {
            out.put_u64(date.cast_unsigned());
            out.put_u32(subject << 1 | u32::from(*reply));
        }
        out
    }

    /// Parses the bytes of [`Links::to_bytes`]; `None` if they are malformed.
    pub(crate) fn from_bytes(bytes: &[u8], seed: u64) -> Option<Self> {
        let mut take = LeReader(bytes);
        let state = ThreadState::from_bytes(take.long_bytes()?).ok()?;
        let ids = Self::take_numbers(&mut take, seed)?;
        let subjects = Self::take_numbers(&mut take, seed)?;
        let rows = take.count(12)?;
        let mut links = Self {
            state,
            ids,
            subjects,
            subject_of: Vec::with_capacity(rows),
            replies: Vec::with_capacity(rows),
            dates: Vec::with_capacity(rows),
        };
        for _ in 0..rows {
            links.dates.push(take.u64()?.cast_signed());
            let packed = take.u32()?;
            links.subject_of.push(packed >> 1);
            links.replies.push(packed & 1 == 1);
        }
        (links.state.rows() as usize == rows).then_some(links)
    }

    fn take_numbers(take: &mut LeReader<'_>, seed: u64) -> Option<Numbers> {
        let count = take.count(12)?;
        let interner = Interner::with_seed(count, seed);
        let mut numbers = Numbers { interner, hashes: Vec::with_capacity(count) };
        for expected in 0..count {
            let id = IdHash { hash: take.u64()?, check: take.u32()? };
            (numbers.number(id).ok()? as usize == expected).then_some(())?;
        }
        Some(numbers)
    }
}

/// Threads rows of a snapshot, ascending, from the texts of their ids and subjects, after a
/// collision or for another profile than that of the cache.
pub(crate) fn threads_of_texts(
    snapshot: &Snapshot,
    rows: &[u32],
    algorithm: ThreadAlgorithm,
    profile: Profile,
) -> barid_cache::Result<std::result::Result<Threads, QueryError>> {
    let mut texts = ThreadTexts::new(algorithm, profile);
    snapshot.records(rows, &mut |_, core, record| {
        let fields = &record.fields;
        texts.push(fields, sent_date(core, fields, profile));
    })?;
    Ok(texts.threads())
}

/// Returns the date that a profile threads by. The servers treat the first second of 1970 as no
/// date.
fn sent_date(core: &Core, fields: &HeaderFields<'_>, profile: Profile) -> i64 {
    if profile == Profile::Rfc {
        return core.sent_date.unix_seconds;
    }
    let date = fields.date.and_then(|raw| barid_message::parse_date_as(raw, profile));
    let date = date.map(|date| date.unix_seconds).filter(|seconds| *seconds != 0);
    date.unwrap_or(core.internal_date.unix_seconds)
}
