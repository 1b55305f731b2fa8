//! MESSAGELIMIT (RFC 9738): a command processes so many messages, those with the highest UIDs, and
//! names the lowest of them when it leaves out others.
//!
//! COPY, APPEND, SORT and THREAD have all messages or none. EXPUNGE, CLOSE, STATUS and ESEARCH in
//! several mailboxes are not limited.

use barid_query::search::{SearchKey, SearchNode, SearchProgram, ranges_contain};
use barid_types::{Flag, Uid, UidSet};

use super::reply::Reply;
use super::{Done, Session};
use crate::backend::{Account, Answer, MailView, Refusal};

/// The text beside the code of a command that has left out messages.
const LEFT_OUT: &str = "Messages with lower UIDs were left out";

impl<A: Account> Session<A> {
    /// Returns the number of messages that a command may process.
    fn message_limit(&self) -> Option<usize> {
        let limit = self.settings.message_limit.filter(|_| self.offers("MESSAGELIMIT"))?;
        Some(limit.get() as usize)
    }

    /// Returns those of the messages, ascending, that the command processes.
    pub(super) fn limited(&mut self, mut uids: Vec<Uid>) -> Vec<Uid> {
        if let Some(limit) = self.message_limit()
            && uids.len() > limit
        {
            uids.drain(..uids.len() - limit);
            self.lowest_processed = uids.first().copied();
        }
        uids
    }

    /// Returns the messages if the command may process all of them.
    pub(super) fn all_or_none(&mut self, uids: Vec<Uid>) -> Answer<Vec<Uid>> {
        let count = uids.len();
        match self.limited(uids) {
            uids if uids.len() == count => Ok(uids),
            _ => Err(Self::too_many()),
        }
    }

    /// Returns those of the messages that UID EXPUNGE processes; messages without \Deleted do not
    /// count.
    pub(super) fn limited_expunge(&mut self, uids: Vec<Uid>) -> Answer<Vec<Uid>> {
        if self.message_limit().is_none_or(|limit| uids.len() <= limit) {
            return Ok(uids);
        }
        let deleted = self.selected_mut()?.newest.uids_with(Flag::Deleted)?;
        let is_deleted = |uid: &Uid| deleted.binary_search(uid).is_ok();
        Ok(self.limited(uids.into_iter().filter(is_deleted).collect()))
    }

    /// Returns items in the order in which they are processed: from the highest UID down if a part
    /// is left out.
    pub(super) fn in_order<T: Copy>(&self, ascending: &[T]) -> Vec<T> {
        match self.lowest_processed {
            Some(_) => ascending.iter().rev().copied().collect(),
            None => ascending.to_vec(),
        }
    }

    /// Refuses a range of PARTIAL that has more messages than a command processes (RFC 9738 §3.1).
    pub(super) fn check_partial(&self, (first, last): (i64, i64)) -> Answer<()> {
        match self.message_limit() {
            Some(limit) if first.abs_diff(last) >= limit as u64 => Err(Self::too_many()),
            _ => Ok(()),
        }
    }

    /// Refuses a message beyond those that APPEND stores at once.
    pub(super) fn check_append_count(&self) -> Answer<()> {
        match self.message_limit() {
            Some(limit) if self.append_count as usize > limit => Err(Self::too_many()),
            _ => Ok(()),
        }
    }

    /// Refuses a search over more messages than a command processes.
    pub(super) fn check_search_limit(&mut self, program: &SearchProgram) -> Answer<()> {
        match self.lowest_searched(program)? {
            Some(_) => Err(Self::too_many()),
            None => Ok(()),
        }
    }

    /// Returns the lowest UID that a search looks at; `None` if that are all which its sets of
    /// numbers and UIDs leave.
    pub(super) fn lowest_searched(&mut self, program: &SearchProgram) -> Answer<Option<Uid>> {
        let Some(limit) = self.message_limit() else { return Ok(None) };
        let selected = self.selected.as_ref().ok_or_else(|| Refusal::bad("No mailbox"))?;
        if selected.newest.len() as usize <= limit {
            return Ok(None);
        }
        let last = selected.last_uid()?;
        let mut uids = selected.newest.uids_in(&[(1, u32::MAX)], false)?;
        for key in required_keys(program) {
            let ranges = match key {
                SearchKey::Saved => ranges_of(&self.saved),
                SearchKey::Seq(set) => {
                    let ranges = set.resolve(selected.numbers.len());
                    let named = selected.numbers.uids_in(&ranges, true)?;
                    ranges_of(&named.into_iter().collect())
                }
                key => match key.uid_ranges(last) {
                    Some(ranges) => ranges,
                    None => continue,
                },
            };
            uids.retain(|uid| ranges_contain(&ranges, uid.get()));
        }
        let count = uids.len();
        let uids = self.limited(uids);
        Ok(uids.first().copied().filter(|_| uids.len() < count))
    }

    /// Adds MESSAGELIMIT to a completion, or as a response of its own beside another code.
    pub(super) fn with_limit(&self, done: Done, reply: &mut Reply<'_>) -> Done {
        match self.left_out() {
            Some(code) if done.code.is_none() => Done::with(code, LEFT_OUT),
            _ => {
                self.write_left_out(reply);
                done
            }
        }
    }

    /// Returns the code of a command that has left out messages.
    fn left_out(&self) -> Option<String> {
        self.lowest_processed.and_then(|_| self.limit_code())
    }

    fn write_left_out(&self, reply: &mut Reply<'_>) {
        if let Some(code) = self.left_out() {
            reply.line(format_args!("* NO [{code}] {LEFT_OUT}"));
        }
    }

    /// Writes the refusal of a command.
    pub(super) fn refuse(&self, tag: &str, refusal: &Refusal, reply: &mut Reply<'_>) {
        match self.limit_code().filter(|_| refusal.code == Some(Refusal::MESSAGE_LIMIT)) {
            Some(code) => reply.refuse(Some(tag), "NO", Some(&code), &refusal.text),
            None => {
                self.write_left_out(reply);
                reply.no(tag, refusal);
            }
        }
    }

    fn limit_code(&self) -> Option<String> {
        let limit = self.message_limit()?;
        Some(match self.lowest_processed {
            Some(lowest) => format!("{} {limit} {lowest}", Refusal::MESSAGE_LIMIT),
            None => format!("{} {limit}", Refusal::MESSAGE_LIMIT),
        })
    }

    fn too_many() -> Refusal {
        Refusal::new(Refusal::MESSAGE_LIMIT, "Too many messages for one command")
    }
}

/// Returns keys that every message found must match.
fn required_keys(program: &SearchProgram) -> Vec<&SearchKey> {
    let nodes = program.nodes();
    let mut required = vec![false; nodes.len()];
    if let Some(root) = required.last_mut() {
        *root = true;
    }
    let mut keys = Vec::new();
    for (at, node) in nodes.iter().enumerate().rev() {
        match node {
            SearchNode::Key(key) if required[at] => keys.push(key),
            SearchNode::And(ids) if required[at] => {
                ids.iter().for_each(|id| required[*id as usize] = true);
            }
            _ => {}
        }
    }
    keys
}

fn ranges_of(uids: &UidSet) -> Vec<(u32, u32)> {
    uids.numbers().collect()
}
