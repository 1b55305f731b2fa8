//! The messages that an expunge or a move removes: UIDs, a query, or those marked \Deleted.

use barid::query::{SearchKey, SearchNode, SearchProgram, looks_like_imap};
use barid::{Flag, Mailbox, Uid, UidSet};

use crate::commands::search;
use crate::exit::WithHint;
use crate::mail::uids::{SelectedUids, UidRanges};

/// The messages that the command line names.
#[derive(Debug)]
pub(crate) enum MessageSelection {
    /// Messages named by UIDs.
    Uids(UidRanges),
    /// Messages found by a query.
    Query(SearchProgram),
    /// Messages marked \Deleted.
    Deleted,
}

/// The messages of a selection.
#[derive(Debug, Default)]
pub(crate) struct SelectedMessages {
    pub(crate) selected: SelectedUids,
    /// Messages that a query could not read, with the errors.
    pub(crate) unreadable: Vec<(Uid, barid::Error)>,
}

impl MessageSelection {
    /// Parses the words of the command line; `nothing` says in an error what is not done, as in
    /// `nothing is expunged`.
    ///
    /// # Errors
    ///
    /// Returns an error for an empty list, an empty word and an empty text in a query: these
    /// usually come from a command or variable with no output, and must not widen the choice.
    pub(crate) fn parse(words: &[String], deleted: bool, nothing: &str) -> anyhow::Result<Self> {
        if deleted {
            return Ok(Self::Deleted);
        }
        if words.is_empty() {
            return Err(WithHint::error(
                format!("no messages are named: {nothing}"),
                "name UIDs or a query, or expunge what is marked \\Deleted with --deleted",
            ));
        }
        if words.iter().any(|word| word.trim().is_empty()) {
            return Err(WithHint::error(
                format!("an empty list of messages: {nothing}"),
                "name UIDs or a query, or expunge what is marked \\Deleted with --deleted",
            ));
        }
        let ranges = words.iter().map(|word| word.parse::<UidRanges>());
        if let Ok(ranges) = ranges.collect::<Result<Vec<_>, _>>() {
            return Ok(Self::Uids(UidRanges::joined(ranges)));
        }
        if !looks_like_imap(&words[0])
            && let Some(word) = words.iter().find(|word| is_like_uids(word))
        {
            let error = word.parse::<UidRanges>().err();
            let error = error.unwrap_or_else(|| "UIDs cannot be mixed with other words".to_owned());
            return Err(WithHint::error(
                format!("{word:?}: {error}"),
                "in a query, write uid:1:5 for UIDs and text:1:5 for a text",
            ));
        }
        let (program, _) = search::parse(words)?;
        if program.nodes().iter().any(is_empty_text) {
            return Err(WithHint::error(
                format!("an empty text is in every message: {nothing}"),
                "`barid search` lists what a query finds, and `all` is every message",
            ));
        }
        Ok(Self::Query(program))
    }

    /// Returns `true` if messages are named by their UIDs.
    pub(crate) fn names_uids(&self) -> bool {
        match self {
            Self::Uids(ranges) => ranges.names_uids(),
            Self::Query(program) => program
                .nodes()
                .iter()
                .any(|node| matches!(node, SearchNode::Key(SearchKey::Uid(_)))),
            Self::Deleted => false,
        }
    }

    /// Finds the messages.
    pub(crate) fn select(&self, mailbox: &mut Mailbox) -> barid::Result<SelectedMessages> {
        let selected = match self {
            Self::Uids(ranges) => ranges.select(mailbox)?,
            Self::Deleted => {
                SelectedUids { uids: mailbox.uids_with(Flag::Deleted)?, ..Default::default() }
            }
            Self::Query(program) => {
                let found = mailbox.search(program, &UidSet::new())?;
                let uids = found.rows.iter().map(|row| mailbox.uid_of(*row));
                let selected = SelectedUids {
                    uids: uids.collect::<barid::Result<_>>()?,
                    ..Default::default()
                };
                return Ok(SelectedMessages { selected, unreadable: found.unreadable });
            }
        };
        Ok(SelectedMessages { selected, unreadable: Vec::new() })
    }
}

/// Returns `true` if a word can only mean UIDs.
fn is_like_uids(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_digit() || b":,*".contains(&byte);
    word.bytes().all(is_part) || word.eq_ignore_ascii_case("all")
}

fn is_empty_text(node: &SearchNode) -> bool {
    let SearchNode::Key(key) = node else { return false };
    match key {
        SearchKey::Address(_, text)
        | SearchKey::Subject(text)
        | SearchKey::Header(_, text)
        | SearchKey::Body(text)
        | SearchKey::Text(text) => text.trim().is_empty(),
        // Each key is named, so that a new one with a text is not forgotten.
        SearchKey::All
        | SearchKey::Flag(_)
        | SearchKey::Keyword(_)
        | SearchKey::Seq(_)
        | SearchKey::Uid(_)
        | SearchKey::UidAfter(_)
        | SearchKey::UidBefore(_)
        | SearchKey::Saved
        | SearchKey::Date(..)
        | SearchKey::SaveDateSupported
        | SearchKey::Older(_)
        | SearchKey::Younger(_)
        | SearchKey::Larger(_)
        | SearchKey::Smaller(_)
        | SearchKey::ModSeq(_)
        | SearchKey::EmailId(_)
        | SearchKey::ThreadId(_)
        | SearchKey::Attachment => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: Result<&str, &str>) {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let selection = MessageSelection::parse(&words, false, "nothing is expunged");
        let found = match &selection {
            Ok(MessageSelection::Uids(_)) => Ok("uids"),
            Ok(MessageSelection::Query(_)) => Ok("query"),
            Ok(MessageSelection::Deleted) => Ok("deleted"),
            Err(error) => Err(error.to_string()),
        };
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{words:?}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{words:?}: {found}"),
            _ => panic!("{words:?}: {found:?}"),
        }
    }

    #[test]
    fn words_are_uids_or_a_query() {
        check(&["1:4,7,*"], Ok("uids"));
        check(&["17", "20:*"], Ok("uids"));
        check(&["all"], Ok("uids"));
        check(&["from:ann"], Ok("query"));
        check(&["from:ann", "older:1y"], Ok("query"));
        check(&["uid:1:5", "is:read"], Ok("query"));
        check(&["UID 1:5 SEEN"], Ok("query"));
        check(&["UID", "1:5", "SEEN"], Ok("query"));
    }

    #[test]
    fn nothing_is_never_everything() {
        check(&[], Err("no messages are named"));
        check(&[""], Err("an empty list"));
        check(&["7", " "], Err("an empty list"));
        for empty in ["subject:", "from:\"\"", "\"\"", "body:\"\"", "header:X=", "SUBJECT \"\""] {
            check(&[empty], Err(""));
        }
        check(&["is:read", "from:"], Err("an empty text"));
        check(&["()"], Err(""));
    }

    #[test]
    fn uids_do_not_stand_among_other_words() {
        check(&["from:ann", "17"], Err("\"17\": UIDs cannot be mixed"));
        check(&["1,,2"], Err("a UID is a number"));
        check(&["all", "from:ann"], Err("UIDs cannot be mixed"));
        check(&["0"], Err("a UID is a number"));
    }
}
