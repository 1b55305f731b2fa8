//! The messages that a command is about: UIDs, a query, or those marked \Deleted.

use std::ffi::OsStr;

use barid::query::{SearchKey, SearchNode, SearchProgram, TextPlace, looks_like_imap};
use barid::{Flag, FoundMessages, Mailbox, Uid, UidSet};

use super::query::{Query, QueryArgs};
use super::uids::{SelectedUids, UidRanges};
use crate::config::UserConfig;
use crate::context::Context;
use crate::exit::{Outcome, WithHint, report};
use crate::limits::MISSING_SHOWN;
use crate::output::escape::visible;
use crate::output::number::counted;

/// The messages that the command line names.
#[derive(Clone, Debug)]
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
    /// Attachments that a query could not look into.
    pub(crate) attachments: UnreadAttachments,
    /// `true` if a query found them.
    pub(crate) is_found: bool,
}

/// The command that selects messages, for its errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selector {
    /// Consequence of the error, such as `nothing is expunged`.
    pub(crate) nothing: &'static str,
    /// Hint on how to name messages.
    pub(crate) hint: &'static str,
    /// `true` to refuse a query with an empty text, which is in every message.
    pub(crate) is_careful: bool,
}

impl Selector {
    const HINT: &'static str = "name UIDs or a query; `all` is every message";

    /// Returns the selector of a command that changes messages.
    pub(crate) const fn changing(nothing: &'static str) -> Self {
        Self { nothing, hint: Self::HINT, is_careful: true }
    }

    /// Returns the selector of a command that only reads them.
    pub(crate) const fn reading(nothing: &'static str) -> Self {
        Self { nothing, hint: Self::HINT, is_careful: false }
    }
}

impl MessageSelection {
    /// Parses the words of the command line, before a mailbox is opened.
    ///
    /// # Errors
    ///
    /// Returns an error for an empty list, an empty word and an empty text in a query: these
    /// usually come from a command or variable with no output, and must not widen the choice.
    pub(crate) fn parse(
        context: &Context,
        words: &[String],
        query: QueryArgs,
        selector: Selector,
    ) -> anyhow::Result<Self> {
        context.prepare(query);
        Self::parse_words(&context.config, words, query, selector)
    }

    /// Parses words as [`MessageSelection::parse`] does, for mailboxes that are opened as they are.
    ///
    /// # Errors
    ///
    /// As [`MessageSelection::parse`].
    pub(crate) fn parse_words(
        config: &UserConfig,
        words: &[String],
        query: QueryArgs,
        selector: Selector,
    ) -> anyhow::Result<Self> {
        Self::parse_as(words, selector, &|words| query.parse(config, words))
    }

    /// Parses the words of the command line as those of a query for several mailboxes; without
    /// words it matches all messages.
    ///
    /// # Errors
    ///
    /// As [`MessageSelection::parse`], and for UIDs, which name messages of one mailbox.
    pub(crate) fn parse_for_mailboxes(
        context: &Context,
        words: &[String],
        query: QueryArgs,
        selector: Selector,
    ) -> anyhow::Result<SearchProgram> {
        context.prepare(query);
        Self::parse_words_for_mailboxes(&context.config, words, query, selector)
    }

    fn parse_words_for_mailboxes(
        config: &UserConfig,
        words: &[String],
        query: QueryArgs,
        selector: Selector,
    ) -> anyhow::Result<SearchProgram> {
        if words.is_empty() {
            return Ok(SearchProgram::all());
        }
        let is_all = |word: &str| word.eq_ignore_ascii_case("all");
        let parse = |words: &[String]| query.parse_for_mailboxes(config, words);
        if !looks_like_imap(&words[0])
            && let Some(word) =
                words.iter().find(|word| is_like_uids(word) && !word.is_empty() && !is_all(word))
        {
            return Err(WithHint::error(
                format!("{word:?}: UIDs name messages of one mailbox, and several are read"),
                "name the messages by a query, as in `from:ann newer:2w`",
            ));
        }
        match Self::parse_as(words, selector, &parse)? {
            Self::Query(program) => Ok(program),
            Self::Uids(_) | Self::Deleted => Ok(SearchProgram::all()),
        }
    }

    fn parse_as(
        words: &[String],
        selector: Selector,
        parse: &dyn Fn(&[String]) -> anyhow::Result<Query>,
    ) -> anyhow::Result<Self> {
        let Selector { nothing, hint, is_careful } = selector;
        if words.is_empty() {
            return Err(WithHint::error(format!("no messages are named: {nothing}"), hint));
        }
        if words.iter().any(|word| word.trim().is_empty()) {
            return Err(WithHint::error(format!("an empty list of messages: {nothing}"), hint));
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
                "in a query, write uid:1:5 for UIDs and \"1:5\" for a text",
            ));
        }
        let query = parse(words)?;
        if query.returns.is_some() {
            return Err(WithHint::error(
                format!(
                    "RETURN chooses what `barid search --imap` prints, not messages: {nothing}"
                ),
                "leave it out",
            ));
        }
        let program = query.program;
        if is_careful && program.nodes().iter().any(is_empty_text) {
            return Err(WithHint::error(
                format!("an empty text is in every message: {nothing}"),
                "`barid search` lists what a query finds, and `all` is every message",
            ));
        }
        Ok(Self::Query(program))
    }

    /// Parses the words of a command that is about all messages without them: then `None`.
    ///
    /// # Errors
    ///
    /// As [`MessageSelection::parse`], for words.
    pub(crate) fn parse_optional(
        context: &Context,
        words: &[String],
        query: QueryArgs,
        selector: Selector,
    ) -> anyhow::Result<Option<Self>> {
        match words.is_empty() {
            true => Ok(None),
            false => Self::parse(context, words, query, selector).map(Some),
        }
    }

    /// Parses one word of the command line, as [`MessageSelection::parse`] does.
    ///
    /// # Errors
    ///
    /// As [`MessageSelection::parse`].
    pub(crate) fn parse_one(
        context: &Context,
        word: &str,
        query: QueryArgs,
        selector: Selector,
    ) -> anyhow::Result<Self> {
        Self::parse(context, &[word.to_owned()], query, selector)
    }

    /// Returns `true` if messages are named by their UIDs.
    pub(crate) fn names_uids(&self) -> bool {
        let names_uids = |node: &SearchNode| match node {
            SearchNode::Key(key) => matches!(key, SearchKey::Uid(_) | SearchKey::ThreadOf(_)),
            _ => false,
        };
        match self {
            Self::Uids(ranges) => ranges.names_uids(),
            Self::Query(program) => program.nodes().iter().any(names_uids),
            Self::Deleted => false,
        }
    }

    /// Returns `true` if messages that arrive meanwhile may be meant: no UIDs are named.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Self::Uids(ranges) if ranges.names_uids())
    }

    /// Finds the messages; their UIDs are ascending.
    pub(crate) fn select(&self, mailbox: &mut Mailbox) -> barid::Result<SelectedMessages> {
        let selected = match self {
            Self::Uids(ranges) => ranges.select(mailbox)?,
            Self::Deleted => {
                SelectedUids { uids: mailbox.uids_with(Flag::Deleted)?, ..Default::default() }
            }
            Self::Query(program) => return found(program, mailbox),
        };
        Ok(SelectedMessages { selected, ..Default::default() })
    }

    /// Finds the messages as [`MessageSelection::select`] does, but those of UIDs in the order in
    /// which they are named, each as often.
    pub(crate) fn select_in_order(&self, mailbox: &mut Mailbox) -> barid::Result<SelectedMessages> {
        match self {
            Self::Uids(ranges) => Ok(SelectedMessages {
                selected: ranges.select_in_order(mailbox)?,
                ..Default::default()
            }),
            _ => self.select(mailbox),
        }
    }
}

fn found(program: &SearchProgram, mailbox: &mut Mailbox) -> barid::Result<SelectedMessages> {
    let found = mailbox.search(program, &UidSet::new())?;
    let attachments = UnreadAttachments::of(program, &found);
    let uids = mailbox.uids_of(&found.rows)?;
    Ok(SelectedMessages {
        selected: SelectedUids { uids, ..Default::default() },
        unreadable: found.unreadable,
        attachments,
        is_found: true,
    })
}

impl SelectedMessages {
    /// Returns the rows of the messages, in the order of the UIDs.
    pub(crate) fn rows(&self, mailbox: &Mailbox) -> barid::Result<Vec<u32>> {
        let mut rows = Vec::with_capacity(self.selected.uids.len());
        for uid in &self.selected.uids {
            rows.extend(mailbox.row_of(*uid)?);
        }
        Ok(rows)
    }

    /// Reports UIDs that do not exist, and messages that could not be read.
    pub(crate) fn report(&self, context: &Context, mailbox: &OsStr) -> Outcome {
        let missing = report_missing(context, mailbox, &self.selected.missing);
        self.report_unreadable(context, mailbox).worse(missing)
    }

    /// Reports the messages that a query could not read, and the attachments.
    pub(crate) fn report_unreadable(&self, context: &Context, mailbox: &OsStr) -> Outcome {
        self.attachments.report(context);
        for (uid, error) in &self.unreadable {
            let text = format!("{}: UID {uid}: {error}", mailbox.display());
            context.error_line("error", &visible(text.as_bytes()));
        }
        if let Some(hint) = self.unreadable.iter().find_map(|(_, error)| error.hint()) {
            context.error_line("hint", &visible(hint.as_bytes()));
        }
        if self.unreadable.is_empty() { Outcome::Done } else { Outcome::Incomplete }
    }
}

/// Reports UIDs that do not exist, the first of them one by one.
pub(crate) fn report_missing<'a>(
    context: &Context,
    mailbox: &OsStr,
    uids: impl IntoIterator<Item = &'a Uid>,
) -> Outcome {
    let mut count = 0;
    for uid in uids {
        count += 1;
        if count <= MISSING_SHOWN {
            let path = mailbox.to_owned().into();
            report(context, &barid::Error::NoSuchMessage { path, uid: *uid }.into());
        }
    }
    if count > MISSING_SHOWN {
        let more = counted((count - MISSING_SHOWN) as u64, "more UID");
        context.error_line("error", &format!("{more} not there"));
    }
    Outcome::nothing_if(count > 0)
}

/// Attachments that a search did not look into.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnreadAttachments {
    /// Number of messages with one that could not be read.
    failed: u32,
    /// `true` if nothing was found, and `attachment:` may have compared names only.
    is_nothing_found: bool,
}

impl UnreadAttachments {
    /// Returns those of a search.
    pub(crate) fn of(program: &SearchProgram, found: &FoundMessages) -> Self {
        let is_attachment = |node: &SearchNode| {
            matches!(node, SearchNode::Key(SearchKey::Pattern(TextPlace::Attachment, _)))
        };
        let has_key = program.nodes().iter().any(is_attachment);
        Self {
            failed: found.attachments_unread,
            is_nothing_found: has_key && found.rows.is_empty(),
        }
    }

    /// Returns those of a search that could not be read, without the names of files.
    pub(crate) fn without_names(found: &FoundMessages) -> Self {
        Self { failed: found.attachments_unread, is_nothing_found: false }
    }

    /// Returns those of the searches of two mailboxes.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            failed: self.failed + other.failed,
            is_nothing_found: self.is_nothing_found && other.is_nothing_found,
        }
    }

    /// Reports them.
    pub(crate) fn report(self, context: &Context) {
        if self.failed > 0 {
            let messages = counted(self.failed.into(), "message");
            let have = if self.failed == 1 { "has" } else { "have" };
            context.warn(&format!(
                "{messages} {have} attachments that could not be read: `barid attachments --text` \
                 says why"
            ));
        }
        if self.is_nothing_found && !context.reads_attachments() {
            context
                .note("`attachment:` compared names of files; --attachments also compares texts");
        }
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
        SearchKey::Pattern(_, pattern) => pattern.is_everywhere(),
        SearchKey::MediaType(text) => text.trim().is_empty(),
        // Each key is named, so that a new one with a text is not forgotten.
        SearchKey::All
        | SearchKey::Flag(_)
        | SearchKey::Keyword(_)
        | SearchKey::Seq(_)
        | SearchKey::Uid(_)
        | SearchKey::ThreadOf(_)
        | SearchKey::InMailbox(_)
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
        let selector = Selector::changing("nothing is changed");
        let selection = MessageSelection::parse_words(
            &UserConfig::default(),
            &words,
            QueryArgs::default(),
            selector,
        );
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
        for (empty, message) in [
            ("subject:", "has no value"),
            ("from:\"\"", "an empty text is in every message"),
            ("\"\"", "an empty text is in every message"),
            ("body:\"\"", "has no value"),
            ("header:X=", "an empty text is in every message"),
            ("SUBJECT \"\"", "an empty text is in every message"),
            ("/.*/", "an empty text is in every message"),
            ("subject:/x?/", "an empty text is in every message"),
            ("and", "a search key is missing"),
            (" and ", "a search key is missing"),
            ("is:read and", "a search key is missing"),
            ("is:read and and is:draft", "a search key is missing"),
            ("()", "a search key is missing"),
            ("RETURN (MIN) UNSEEN", "RETURN chooses"),
        ] {
            check(&[empty], Err(message));
        }
        check(&["subject:/^$/"], Ok("query"));
        check(&["is:read", "from:"], Err("has no value"));
        check(&["is:read", "from:\"\""], Err("an empty text"));
    }

    #[test]
    fn several_mailboxes_take_a_query() {
        let check = |words: &[&str], expected: Result<&str, &str>| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let (config, query) = (UserConfig::default(), QueryArgs::default());
            let selector = Selector::reading("nothing is listed");
            let found =
                MessageSelection::parse_words_for_mailboxes(&config, &words, query, selector);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.to_string(), expected, "{words:?}"),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{words:?}: {error}");
                }
                (found, _) => panic!("{words:?}: {found:?}"),
            }
        };
        check(&[], Ok("All"));
        check(&["all"], Ok("All"));
        check(&["in:lists"], Ok("InMailbox(\"lists\")"));
        check(&["17"], Err("UIDs name messages of one mailbox"));
        check(&["box", "1:4"], Err("UIDs name messages of one mailbox"));
        check(&[""], Err("an empty list"));
        check(&["RETURN (MIN) UNSEEN"], Err("RETURN chooses"));
    }

    #[test]
    fn uids_do_not_stand_among_other_words() {
        check(&["from:ann", "17"], Err("\"17\": UIDs cannot be mixed"));
        check(&["1,,2"], Err("a UID is a number"));
        check(&["all", "from:ann"], Err("UIDs cannot be mixed"));
        check(&["0"], Err("a UID is a number"));
    }
}
