//! The keys of a program, and the options of RETURN.
//!
//! ```text
//! search-key = key-word *(SP argument) / sequence-set / "$" /
//!              "(" search-key *(SP search-key) ")"
//! argument   = atom / quoted / literal
//! ```

use barid_query::limits::SEARCH_DEPTH_MAX;
use barid_query::search::{
    AddressField, DateColumn, DateRange, Day, NodeId, NumberSet, ProgramBuilder, ReturnOptions,
    SearchError, SearchKey, SearchProgram,
};
use barid_types::{Flag, Keyword};

use super::lexer::{ImapLexer, ImapToken};
use crate::lex;
use crate::limits::OBJECT_ID_LEN_MAX;

/// Parses search keys up to the end of the text.
pub(crate) fn parse_keys(lexer: ImapLexer<'_>) -> Result<SearchProgram, SearchError> {
    let mut parser = ImapParser {
        lexer,
        builder: ProgramBuilder::default(),
        open: vec![Frame::List(Vec::new())],
    };
    parser.tokens()?;
    let Some(Frame::List(nodes)) = parser.open.pop() else {
        return Err(SearchError::Missing { what: "a search key", after: "NOT or OR".into() });
    };
    if nodes.is_empty() {
        return Err(SearchError::Missing { what: "a search key", after: "SEARCH".into() });
    }
    let root = parser.builder.and(nodes)?;
    Ok(parser.builder.finish(root))
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses `"(" *return-option ")"` (RFC 4731 §3.1, RFC 5182).
pub(super) fn parse_returns(lexer: &mut ImapLexer<'_>) -> Result<ReturnOptions, SearchError> {
    if lexer.next()? != ImapToken::Open {
        return Err(SearchError::Missing { what: "a list", after: "RETURN".into() });
    }
    let mut options = ReturnOptions::default();
    loop {
        match lexer.next()? {
            ImapToken::Close => break,
            ImapToken::Atom(name) => match name.to_ascii_uppercase().as_slice() {
                b"MIN" => options.min = true,
                b"MAX" => options.max = true,
                b"ALL" => options.all = true,
                b"COUNT" => options.count = true,
                b"SAVE" => options.save = true,
                _ => return Err(SearchError::bad("RETURN", "result option", shown(name))),
            },
            _ => return Err(SearchError::Missing { what: ")", after: "RETURN (".into() }),
        }
    }
    if options == ReturnOptions::default() {
        options.all = true;
    }
    Ok(options)
}

/// An unfinished node.
enum Frame {
    List(Vec<NodeId>),
    Not,
    /// The first key of OR, if it was already read.
    Or(Option<NodeId>),
}

struct ImapParser<'a> {
    lexer: ImapLexer<'a>,
    builder: ProgramBuilder,
    open: Vec<Frame>,
}

impl ImapParser<'_> {
    fn tokens(&mut self) -> Result<(), SearchError> {
        loop {
            match self.lexer.next()? {
                ImapToken::End => break,
                ImapToken::Open => self.begin(Frame::List(Vec::new()))?,
                ImapToken::Close => self.close()?,
                ImapToken::Atom(word) => self.key(&shown(word))?,
                ImapToken::Text(_) => return Err(self.lexer.out_of_place()),
            }
        }
        if self.open.len() > 1 {
            let (what, after) = match self.open.last() {
                Some(Frame::List(_)) => (")", "("),
                Some(Frame::Not) => ("a search key", "NOT"),
                _ => ("a search key", "OR"),
            };
            return Err(SearchError::Missing { what, after: after.to_owned() });
        }
        Ok(())
    }

    fn begin(&mut self, frame: Frame) -> Result<(), SearchError> {
        if self.open.len() > SEARCH_DEPTH_MAX {
            return Err(SearchError::TooMuch { what: "levels", max: SEARCH_DEPTH_MAX });
        }
        self.open.push(frame);
        Ok(())
    }

    fn close(&mut self) -> Result<(), SearchError> {
        let is_list = matches!(self.open.last(), Some(Frame::List(_)));
        let nodes = match self.open.pop() {
            Some(Frame::List(nodes)) if is_list && !self.open.is_empty() => nodes,
            _ => {
                let at = self.lexer.last_at();
                return Err(SearchError::OutOfPlace { found: ")".into(), at });
            }
        };
        if nodes.is_empty() {
            return Err(SearchError::Missing { what: "a search key", after: "(".into() });
        }
        let node = self.builder.and(nodes)?;
        self.complete(node)
    }

    /// Adds a complete node to the innermost unfinished one.
    fn complete(&mut self, mut node: NodeId) -> Result<(), SearchError> {
        loop {
            match self.open.last_mut() {
                Some(Frame::List(nodes)) => {
                    nodes.push(node);
                    return Ok(());
                }
                Some(Frame::Or(first @ None)) => {
                    *first = Some(node);
                    return Ok(());
                }
                Some(Frame::Or(Some(first))) => {
                    let pair = vec![*first, node];
                    self.open.pop();
                    node = self.builder.or(pair)?;
                }
                Some(Frame::Not) => {
                    self.open.pop();
                    node = self.builder.not(node)?;
                }
                None => return Ok(()),
            }
        }
    }

    fn key(&mut self, word: &str) -> Result<(), SearchError> {
        let upper = word.to_ascii_uppercase();
        match &*upper {
            "NOT" => return self.begin(Frame::Not),
            "OR" => return self.begin(Frame::Or(None)),
            "NEW" => {
                let recent = self.builder.key(SearchKey::Flag(Flag::Recent))?;
                let seen = self.builder.key(SearchKey::Flag(Flag::Seen))?;
                let unseen = self.builder.not(seen)?;
                let node = self.builder.and(vec![recent, unseen])?;
                return self.complete(node);
            }
            _ => {}
        }
        let (key, is_negated) = match flag(&upper) {
            Some((flag, is_set)) => (SearchKey::Flag(flag), !is_set),
            None => (self.simple(&upper, word)?, upper == "UNKEYWORD"),
        };
        let mut node = self.builder.key(key)?;
        if is_negated {
            node = self.builder.not(node)?;
        }
        self.complete(node)
    }

    /// Reads a key that contains no other keys.
    fn simple(&mut self, key: &str, word: &str) -> Result<SearchKey, SearchError> {
        let lexer = &mut self.lexer;
        let address = |field| move |text| SearchKey::Address(field, text);
        Ok(match key {
            "ALL" => SearchKey::All,
            "$" => SearchKey::Saved,
            "UID" => match &*lexer.argument(key)? {
                "$" => SearchKey::Saved,
                set => SearchKey::Uid(NumberSet::parse(set)?),
            },
            "UIDAFTER" => SearchKey::UidAfter(self.unique_id(key)?),
            "UIDBEFORE" => SearchKey::UidBefore(self.unique_id(key)?),
            "EMAILID" => SearchKey::EmailId(self.object_id(key)?),
            "THREADID" => SearchKey::ThreadId(self.object_id(key)?),
            "KEYWORD" | "UNKEYWORD" => {
                let name = lexer.argument(key)?;
                let keyword = Keyword::new(&name);
                SearchKey::Keyword(keyword.ok_or(SearchError::bad(key, "keyword", name))?)
            }
            "BEFORE" | "ON" | "SINCE" => SearchKey::Date(DateColumn::Internal, self.dates(key)?),
            "SENTBEFORE" | "SENTON" | "SENTSINCE" => {
                SearchKey::Date(DateColumn::Sent, self.dates(key)?)
            }
            "SAVEDBEFORE" | "SAVEDON" | "SAVEDSINCE" => {
                SearchKey::Date(DateColumn::Saved, self.dates(key)?)
            }
            "SAVEDATESUPPORTED" => SearchKey::SaveDateSupported,
            "OLDER" => SearchKey::Older(self.positive(key)?),
            "YOUNGER" => SearchKey::Younger(self.positive(key)?),
            "LARGER" => SearchKey::Larger(self.number(key)?),
            "SMALLER" => SearchKey::Smaller(self.number(key)?),
            "MODSEQ" => SearchKey::ModSeq(self.mod_seq()?),
            "FROM" => lexer.argument(key).map(address(AddressField::From))?,
            "TO" => lexer.argument(key).map(address(AddressField::To))?,
            "CC" => lexer.argument(key).map(address(AddressField::Cc))?,
            "BCC" => lexer.argument(key).map(address(AddressField::Bcc))?,
            "SUBJECT" => SearchKey::Subject(lexer.argument(key)?),
            "HEADER" => SearchKey::Header(lexer.argument(key)?, lexer.argument(key)?),
            "BODY" => SearchKey::Body(lexer.argument(key)?),
            "TEXT" => SearchKey::Text(lexer.argument(key)?),
            _ if word.starts_with(|c: char| c == '*' || c.is_ascii_digit()) => {
                SearchKey::Seq(NumberSet::parse(word)?)
            }
            _ => return Err(SearchError::UnknownKey(word.to_owned())),
        })
    }

    fn dates(&mut self, key: &str) -> Result<DateRange, SearchError> {
        let text = self.lexer.argument(key)?;
        let day = Day::parse_imap(&text);
        let day = day.ok_or_else(|| SearchError::bad(key, "date such as 31-Jan-2024", text))?;
        Ok(match key {
            "BEFORE" | "SENTBEFORE" | "SAVEDBEFORE" => DateRange { from: None, to: Some(day) },
            "SINCE" | "SENTSINCE" | "SAVEDSINCE" => DateRange { from: Some(day), to: None },
            _ => DateRange { from: Some(day), to: Some(day.plus(1)) },
        })
    }

    fn number(&mut self, key: &str) -> Result<u64, SearchError> {
        let text = self.lexer.argument(key)?;
        lex::number(text.as_bytes()).ok_or_else(|| SearchError::bad(key, "number", text))
    }

    /// Reads `objectid` (RFC 8474 §7).
    fn object_id(&mut self, key: &str) -> Result<String, SearchError> {
        let text = self.lexer.argument(key)?;
        let is_char = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        match (1..=OBJECT_ID_LEN_MAX).contains(&text.len()) && text.bytes().all(is_char) {
            true => Ok(text),
            false => Err(SearchError::bad(key, "identifier", text)),
        }
    }

    /// Reads `uniqueid`, a number above 0.
    fn unique_id(&mut self, key: &str) -> Result<u32, SearchError> {
        let number = self.number(key)?;
        let valid = u32::try_from(number).ok().filter(|uid| *uid > 0);
        valid.ok_or_else(|| SearchError::bad(key, "UID", number.to_string()))
    }

    fn positive(&mut self, key: &str) -> Result<u32, SearchError> {
        let seconds = self.number(key)?;
        let valid = u32::try_from(seconds).ok().filter(|seconds| *seconds > 0);
        valid.ok_or_else(|| SearchError::bad(key, "number of seconds", seconds.to_string()))
    }

    /// Reads `[entry-name SP entry-type-req SP] mod-sequence-valzer`. barid has no mod-sequence for
    /// each flag, so the message's is compared (RFC 7162 §3.1.5 allows it).
    fn mod_seq(&mut self) -> Result<u64, SearchError> {
        let mut text = self.lexer.argument("MODSEQ")?;
        if text.to_ascii_lowercase().starts_with("/flags/") {
            let kind = self.lexer.argument("MODSEQ")?;
            let known = ["all", "priv", "shared"].iter().any(|k| k.eq_ignore_ascii_case(&kind));
            if !known {
                return Err(SearchError::bad("MODSEQ", "entry type", kind));
            }
            text = self.lexer.argument("MODSEQ")?;
        }
        lex::number(text.as_bytes()).ok_or_else(|| SearchError::bad("MODSEQ", "mod-sequence", text))
    }
}

/// Returns the flag of a key, and `true` if the key requires it to be set.
fn flag(key: &str) -> Option<(Flag, bool)> {
    Some(match key {
        "ANSWERED" => (Flag::Answered, true),
        "DELETED" => (Flag::Deleted, true),
        "DRAFT" => (Flag::Draft, true),
        "FLAGGED" => (Flag::Flagged, true),
        "RECENT" => (Flag::Recent, true),
        "SEEN" => (Flag::Seen, true),
        "UNANSWERED" => (Flag::Answered, false),
        "UNDELETED" => (Flag::Deleted, false),
        "UNDRAFT" => (Flag::Draft, false),
        "UNFLAGGED" => (Flag::Flagged, false),
        "OLD" => (Flag::Recent, false),
        "UNSEEN" => (Flag::Seen, false),
        _ => return None,
    })
}
