//! THREAD (RFC 5256 §3) in three algorithms, over columns of numbers.
//!
//! | file | REFERENCES |
//! | --- | --- |
//! | `link.rs` | step 1: containers and their parents, row by row |
//! | `ancestry.rs` | the search for loops where walking up would be slow |
//! | `prune.rs` | steps 2 and 3: dummies |
//! | `order.rs` | steps 4 and 6: dates |
//! | `subject.rs` | step 5: subjects |
//! | `first_linked.rs` | c-client's deviation in step 4 |
//!
//! `refs.rs` and `ordered_subject.rs` are the other two algorithms, `output.rs` the result,
//! `state.rs` the stored form of the links, `texts.rs` the columns from header fields.
//! Nothing recurses, and nothing but texts is allocated per message.

mod ancestry;
mod columns;
mod first_linked;
mod link;
mod order;
mod ordered_subject;
mod output;
mod prune;
mod refs;
mod state;
mod subject;
mod texts;

pub use columns::{KeyColumns, LinkColumns, NO_ID, ThreadColumns};
pub use link::ThreadState;
pub use output::{ThreadNode, Threads};
pub use texts::ThreadTexts;

use std::fmt;
use std::str::FromStr;

use crate::{Profile, QueryError};

/// A threading algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ThreadAlgorithm {
    /// By references, then by subject (RFC 5256 §3).
    #[default]
    References,
    /// By references alone, threads ordered by their latest message (Dovecot).
    Refs,
    /// By subject alone (RFC 5256 §3).
    OrderedSubject,
}

impl ThreadAlgorithm {
    /// Returns the name of the algorithm in IMAP, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ThreadAlgorithm::References => "references",
            ThreadAlgorithm::Refs => "refs",
            ThreadAlgorithm::OrderedSubject => "orderedsubject",
        }
    }
}

impl fmt::Display for ThreadAlgorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ThreadAlgorithm {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let all = [Self::References, Self::Refs, Self::OrderedSubject];
        let found = all.into_iter().find(|known| known.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| QueryError::UnknownAlgorithm(text.to_owned()))
    }
}

/// Threads a mailbox; near linear in its messages and references.
///
/// # Errors
/// Returns [`QueryError`] if the columns do not fit together.
pub fn threads(
    algorithm: ThreadAlgorithm,
    columns: &ThreadColumns<'_>,
    profile: Profile,
) -> Result<Threads, QueryError> {
    let mut state = ThreadState::new(profile);
    if algorithm == ThreadAlgorithm::OrderedSubject {
        return threads_by_subject(&columns.keys);
    }
    state.extend(&columns.links)?;
    threads_from_state(algorithm, &state, &columns.keys)
}

/// Threads a mailbox by subject alone, which needs no links.
///
/// # Errors
/// Returns [`QueryError`] if the columns do not fit together.
pub fn threads_by_subject(keys: &KeyColumns<'_>) -> Result<Threads, QueryError> {
    keys.check(keys.dates.len())?;
    Ok(ordered_subject::ordered_subject(keys, &order::rows_by_date(keys.dates)))
}

/// Threads a mailbox whose messages are already linked; linear.
///
/// # Errors
/// Returns [`QueryError`] if the columns do not fit together or do not fit the state.
pub fn threads_from_state(
    algorithm: ThreadAlgorithm,
    state: &ThreadState,
    keys: &KeyColumns<'_>,
) -> Result<Threads, QueryError> {
    keys.check(state.rows() as usize)?;
    let by_date = order::rows_by_date(keys.dates);
    match algorithm {
        ThreadAlgorithm::OrderedSubject => Ok(ordered_subject::ordered_subject(keys, &by_date)),
        ThreadAlgorithm::Refs => Ok(refs::order(&prune::prune(state), &by_date, keys.dates)),
        ThreadAlgorithm::References => Ok(references(state, keys, &by_date)),
    }
}

fn references(state: &ThreadState, keys: &KeyColumns<'_>, by_date: &[u32]) -> Threads {
    let mut forest = prune::prune(state);
    let represent =
        (state.profile == Profile::CClient).then(|| first_linked::first_linked(state, &forest));
    let roots = order::roots(&mut forest, by_date, represent);
    subject::merge(&mut forest, &roots, keys);
    order::order(&forest, by_date)
}
