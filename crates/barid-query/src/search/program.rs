//! Search programs.

use std::fmt;

use barid_types::{Flag, Keyword};

use super::{Day, NumberSet, SearchError, TextPattern};
use crate::limits::{
    SEARCH_EMAIL_IDS_MAX, SEARCH_KEYS_MAX, SEARCH_PATTERNS_MAX, SEARCH_TEXT_LEN_MAX,
};

/// An address field of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressField {
    /// `From`.
    From,
    /// `To`.
    To,
    /// `Cc`.
    Cc,
    /// `Bcc`.
    Bcc,
}

/// The part of a message in which a pattern is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPlace {
    /// An address field of the envelope.
    Address(AddressField),
    /// The subject of the envelope.
    Subject,
    /// The fields of a name.
    Header(String),
    /// The bodies of the parts that are text.
    Body,
    /// Headers and bodies.
    Text,
    /// The file name of a part.
    FileName,
    /// The file name of a part, and the text of an attachment, where the view has it
    /// ([`super::SearchView::attachment_texts`]).
    Attachment,
}

/// A date of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DateColumn {
    /// The internal date.
    Internal,
    /// The date of its `Date` field; a message without one is in no range.
    Sent,
    /// The date of its `Date` field, or the internal date without one, as in message lists.
    Shown,
    /// The date at which it was saved in its mailbox. No storage records that, so it is the
    /// internal date (RFC 8514 §4.3).
    Saved,
}

/// A range of days from `from` on and before `to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DateRange {
    /// The first day; `None` for no beginning.
    pub from: Option<Day>,
    /// The day after the last; `None` for no end.
    pub to: Option<Day>,
}

impl DateRange {
    /// Returns `true` if a day is in the range.
    #[must_use]
    pub fn contains(&self, day: Day) -> bool {
        self.from.is_none_or(|from| from <= day) && self.to.is_none_or(|to| day < to)
    }
}

/// A search key (RFC 9051 §6.4.4). The negative keys of the RFC, such as UNANSWERED, are a
/// [`SearchNode::Not`] of it; NEW and OLD combine \Recent and \Seen (RFC 3501).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchKey {
    /// Every message.
    All,
    /// Messages with a system flag.
    Flag(Flag),
    /// Messages with a keyword.
    Keyword(Keyword),
    /// By sequence number.
    Seq(NumberSet),
    /// By UID.
    Uid(NumberSet),
    /// UIDAFTER: messages with a higher UID (RFC 9738 §3.2).
    UidAfter(u32),
    /// UIDBEFORE: messages with a lower UID (RFC 9738 §3.2).
    UidBefore(u32),
    /// The result of the last search that was saved (`$`, RFC 5182).
    Saved,
    /// By date, disregarding time and zone.
    Date(DateColumn, DateRange),
    /// SAVEDATESUPPORTED: messages with a date at which they were saved (RFC 8514 §4.3): none.
    SaveDateSupported,
    /// OLDER: the internal date is at least this many seconds ago (RFC 5032).
    Older(u32),
    /// YOUNGER: the internal date is at most this many seconds ago (RFC 5032).
    Younger(u32),
    /// LARGER: RFC822.SIZE is above this value.
    Larger(u64),
    /// SMALLER: RFC822.SIZE is below this value.
    Smaller(u64),
    /// Messages whose mod-sequence is at least this value (RFC 7162 §3.1.5).
    ModSeq(u64),
    /// FROM, TO, CC, BCC: an address of the envelope contains a text.
    Address(AddressField, String),
    /// SUBJECT: the subject of the envelope contains a text.
    Subject(String),
    /// HEADER: a field of this name contains a text; an empty one is in every field.
    Header(String, String),
    /// BODY: the body, decoded, contains a text.
    Body(String),
    /// TEXT: header or body, decoded, contain a text.
    Text(String),
    /// A text of the message contains a pattern.
    Pattern(TextPlace, TextPattern),
    /// The media type of a part, `type/subtype`, contains a text.
    MediaType(String),
    /// Messages in the threads of these UIDs. It matches nothing until the storage has replaced it
    /// with a set of UIDs ([`SearchProgram::map_keys`]).
    ThreadOf(NumberSet),
    /// Messages of the mailboxes that have this name. It matches nothing until it has been replaced
    /// for each mailbox.
    InMailbox(String),
    /// Messages with a part to be saved rather than read.
    Attachment,
    /// EMAILID: messages with this content (RFC 8474 §6). It matches nothing until the storage has
    /// replaced it with a set of UIDs ([`SearchProgram::map_keys`]).
    EmailId(String),
    /// THREADID: messages of this thread (RFC 8474 §6). Threads have no names, so it matches
    /// nothing.
    ThreadId(String),
}

impl SearchKey {
    /// Returns the UIDs that a key selects, as ascending ranges that do not touch, with `*` as
    /// `greatest`; `None` for a key that is not a set of UIDs.
    #[must_use]
    pub fn uid_ranges(&self, greatest: u32) -> Option<Vec<(u32, u32)>> {
        let range = |first: Option<u32>, last: u32| {
            first.filter(|first| *first <= last).map(|first| (first, last)).into_iter().collect()
        };
        match self {
            Self::Uid(set) => Some(set.resolve(greatest)),
            Self::UidAfter(uid) => Some(range(uid.checked_add(1), u32::MAX)),
            Self::UidBefore(uid) => Some(range(Some(1), uid.saturating_sub(1))),
            _ => None,
        }
    }
}

/// The index of a node in its program.
pub type NodeId = u32;

/// A search key or an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchNode {
    /// A search key.
    Key(SearchKey),
    /// Messages that the other node does not match.
    Not(NodeId),
    /// Messages that all of these nodes match; without nodes, all messages.
    And(Vec<NodeId>),
    /// Messages that one of these nodes matches; without nodes, no messages.
    Or(Vec<NodeId>),
}

/// A search program.
///
/// Nodes follow those that they refer to, and the root is the last: one pass from the front
/// computes all values, at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchProgram {
    nodes: Vec<SearchNode>,
}

impl SearchProgram {
    /// Returns the program that matches every message.
    #[must_use]
    pub fn all() -> Self {
        Self { nodes: vec![SearchNode::Key(SearchKey::All)] }
    }

    /// Returns the program of one key.
    #[must_use]
    pub fn of(key: SearchKey) -> Self {
        Self { nodes: vec![SearchNode::Key(key)] }
    }

    /// Returns the program that matches what both match.
    ///
    /// # Errors
    /// [`SearchError::TooMuch`] beyond [`SEARCH_KEYS_MAX`] nodes.
    pub fn and(&self, other: &Self) -> Result<Self, SearchError> {
        let shift = self.nodes.len() as NodeId;
        let moved = |ids: &[NodeId]| ids.iter().map(|id| id + shift).collect();
        let mut nodes = self.nodes.clone();
        nodes.extend(other.nodes.iter().map(|node| match node {
            SearchNode::Key(key) => SearchNode::Key(key.clone()),
            SearchNode::Not(id) => SearchNode::Not(id + shift),
            SearchNode::And(ids) => SearchNode::And(moved(ids)),
            SearchNode::Or(ids) => SearchNode::Or(moved(ids)),
        }));
        let roots = vec![shift.saturating_sub(1), nodes.len() as NodeId - 1];
        nodes.push(SearchNode::And(roots));
        match nodes.len() > SEARCH_KEYS_MAX {
            true => Err(SearchError::TooMuch { what: "keys", max: SEARCH_KEYS_MAX }),
            false => Ok(Self { nodes }),
        }
    }

    /// Returns the program with other keys in the place of its keys.
    #[must_use]
    pub fn map_keys(&self, map: &mut dyn FnMut(&SearchKey) -> SearchKey) -> Self {
        let nodes = self.nodes.iter().map(|node| match node {
            SearchNode::Key(key) => SearchNode::Key(map(key)),
            node => node.clone(),
        });
        Self { nodes: nodes.collect() }
    }

    /// Returns the nodes; the last is the root.
    #[must_use]
    pub fn nodes(&self) -> &[SearchNode] {
        &self.nodes
    }
}

/// Writes keys and operators, such as `and(Flag(Seen) not(Text("a")))`; a node with several parents
/// is written for each of them.
impl fmt::Display for SearchProgram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let join = |name: &str, ids: &[NodeId]| {
                let parts: Vec<&str> = ids.iter().map(|id| &*texts[*id as usize]).collect();
                format!("{name}({})", parts.join(" "))
            };
            let text = match node {
                SearchNode::Key(key) => format!("{key:?}"),
                SearchNode::Not(id) => join("not", &[*id]),
                SearchNode::And(ids) => join("and", ids),
                SearchNode::Or(ids) => join("or", ids),
            };
            texts.push(text);
        }
        formatter.write_str(texts.last().map_or("", String::as_str))
    }
}

/// A builder of programs from their leaves up, which enforces the limits.
#[derive(Clone, Debug, Default)]
pub struct ProgramBuilder {
    nodes: Vec<SearchNode>,
    text_len: usize,
    email_ids: usize,
    patterns: usize,
}

impl ProgramBuilder {
    /// Adds a search key.
    ///
    /// # Errors
    /// [`SearchError::TooMuch`] beyond [`SEARCH_KEYS_MAX`] nodes, [`SEARCH_TEXT_LEN_MAX`] bytes of
    /// texts, [`SEARCH_EMAIL_IDS_MAX`] identifiers of content, or [`SEARCH_PATTERNS_MAX`] patterns.
    pub fn key(&mut self, key: SearchKey) -> Result<NodeId, SearchError> {
        self.text_len += match &key {
            SearchKey::Address(_, text)
            | SearchKey::Subject(text)
            | SearchKey::Body(text)
            | SearchKey::Text(text)
            | SearchKey::MediaType(text)
            | SearchKey::InMailbox(text) => text.len(),
            SearchKey::Header(name, text) => name.len() + text.len(),
            SearchKey::Pattern(_, pattern) => pattern.text_len(),
            _ => 0,
        };
        if self.text_len > SEARCH_TEXT_LEN_MAX {
            let max = SEARCH_TEXT_LEN_MAX;
            return Err(SearchError::TooMuch { what: "bytes of text", max });
        }
        self.email_ids += usize::from(matches!(key, SearchKey::EmailId(_)));
        if self.email_ids > SEARCH_EMAIL_IDS_MAX {
            return Err(SearchError::TooMuch { what: "EMAILID keys", max: SEARCH_EMAIL_IDS_MAX });
        }
        self.patterns += usize::from(matches!(key, SearchKey::Pattern(..)));
        if self.patterns > SEARCH_PATTERNS_MAX {
            return Err(SearchError::TooMuch { what: "patterns", max: SEARCH_PATTERNS_MAX });
        }
        self.push(SearchNode::Key(key))
    }

    /// Adds the negation of a node.
    ///
    /// # Errors
    /// As [`ProgramBuilder::key`].
    pub fn not(&mut self, node: NodeId) -> Result<NodeId, SearchError> {
        self.push(SearchNode::Not(node))
    }

    /// Joins nodes that must all match; a single node is returned unchanged.
    ///
    /// # Errors
    /// As [`ProgramBuilder::key`].
    pub fn and(&mut self, mut nodes: Vec<NodeId>) -> Result<NodeId, SearchError> {
        match (nodes.pop(), nodes.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => {
                nodes.extend(last);
                self.push(SearchNode::And(nodes))
            }
        }
    }

    /// Joins nodes of which one must match; a single node is returned unchanged.
    ///
    /// # Errors
    /// As [`ProgramBuilder::key`].
    pub fn or(&mut self, mut nodes: Vec<NodeId>) -> Result<NodeId, SearchError> {
        match (nodes.pop(), nodes.is_empty()) {
            (Some(only), true) => Ok(only),
            (last, _) => {
                nodes.extend(last);
                self.push(SearchNode::Or(nodes))
            }
        }
    }

    fn push(&mut self, node: SearchNode) -> Result<NodeId, SearchError> {
        if self.nodes.len() == SEARCH_KEYS_MAX {
            return Err(SearchError::TooMuch { what: "keys", max: SEARCH_KEYS_MAX });
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as NodeId - 1)
    }

    /// Returns the program with the root `root`; nodes after it are dropped.
    #[must_use]
    pub fn finish(mut self, root: NodeId) -> SearchProgram {
        self.nodes.truncate(root as usize + 1);
        if self.nodes.is_empty() {
            SearchProgram::all()
        } else {
            SearchProgram { nodes: self.nodes }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_joined() {
        let flag = |flag| SearchProgram::of(SearchKey::Flag(flag));
        let mut builder = ProgramBuilder::default();
        let draft = builder.key(SearchKey::Flag(Flag::Draft)).unwrap();
        let not = builder.not(draft).unwrap();
        let joined = flag(Flag::Seen).and(&builder.finish(not)).unwrap();
        assert_eq!(joined.to_string(), "and(Flag(Seen) not(Flag(Draft)))");
        let many =
            |count| (0..count).try_fold(flag(Flag::Seen), |all, _| all.and(&flag(Flag::Seen)));
        assert!(many(2_047).is_ok() && many(2_048).is_err());
    }

    #[test]
    fn keys_name_uids() {
        let check = |key: SearchKey, expected: Option<&[(u32, u32)]>| {
            assert_eq!(key.uid_ranges(9).as_deref(), expected, "{key:?}");
        };
        let set = NumberSet::parse("1:3,8:*").unwrap();
        check(SearchKey::Uid(set.clone()), Some(&[(1, 3), (8, 9)]));
        check(SearchKey::UidAfter(5), Some(&[(6, u32::MAX)]));
        check(SearchKey::UidAfter(u32::MAX), Some(&[]));
        check(SearchKey::UidBefore(5), Some(&[(1, 4)]));
        check(SearchKey::UidBefore(1), Some(&[]));
        check(SearchKey::Seq(set), None);
    }
}
