//! The items of FETCH (RFC 9051 §6.4.5, RFC 3516, RFC 7162, RFC 8474, RFC 8514, RFC 8970).
//!
//! ```text
//! fetch-att = "ENVELOPE" / "FLAGS" / "INTERNALDATE" / "RFC822.SIZE" / "BODY" ["STRUCTURE"] /
//!             "UID" / "MODSEQ" / "BODY" [".PEEK"] section [partial] /
//!             "BINARY" [".PEEK"] section-binary [partial] / "BINARY.SIZE" section-binary /
//!             "SAVEDATE" / "EMAILID" / "THREADID" / "PREVIEW" [SP "(LAZY)"]
//! partial   = "<" number64 ["." nz-number64] ">"
//! ```

use std::fmt;
use std::io::Write as _;

use barid_message::{Section, SectionError, SectionText};

use crate::limits::FETCH_ITEMS_MAX;

/// An error in the items of a fetch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// No item has this name.
    #[error(
        "{0} cannot be fetched; there are FLAGS, UID, MODSEQ, INTERNALDATE, RFC822.SIZE, ENVELOPE, \
         BODY, BODYSTRUCTURE, BODY[SECTION], BINARY[PART], BINARY.SIZE[PART], SAVEDATE, EMAILID, \
         THREADID, PREVIEW, FAST, ALL, FULL"
    )]
    UnknownItem(String),
    /// The section of an item is malformed.
    #[error("{item}: {source}")]
    Section {
        /// The item.
        item: String,
        /// The error in the section.
        source: SectionError,
    },
    /// Brackets or parentheses without their ends, or with something after them.
    #[error("{0}: brackets or parentheses do not match")]
    Unbalanced(String),
    /// A malformed byte range.
    #[error("{0}: a part of a section is <FIRST.COUNT>, as in BODY[]<0.1000>")]
    BadPartial(String),
    /// There are no items.
    #[error("nothing is to be fetched")]
    Nothing,
    /// There are too many items.
    #[error("more than {FETCH_ITEMS_MAX} items are to be fetched")]
    TooMany,
}

/// A range of the bytes of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partial {
    /// The first byte, counted from 0.
    pub first: u64,
    /// Maximum number of bytes; `None` for all that follow.
    pub count: Option<u64>,
}

impl Partial {
    /// Returns the part of `bytes` in this range.
    pub fn of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let first = usize::try_from(self.first).unwrap_or(usize::MAX).min(bytes.len());
        let count = self.count.and_then(|count| usize::try_from(count).ok());
        let end = count.map_or(bytes.len(), |count| first.saturating_add(count).min(bytes.len()));
        &bytes[first..end]
    }
}

/// An item to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchItem {
    /// Flags and keywords.
    Flags,
    /// The UID.
    Uid,
    /// The mod-sequence.
    ModSeq,
    /// The date of arrival.
    InternalDate,
    /// The size in wire form.
    Rfc822Size,
    /// The envelope.
    Envelope,
    /// The structure without extension data.
    Body,
    /// The structure.
    BodyStructure,
    /// Bytes as they are transferred, by the name in the answer: `BODY`, `RFC822`, and so on.
    Section {
        /// The section.
        section: Section,
        /// The range of its bytes.
        partial: Option<Partial>,
        /// Its old name (RFC 3501), if that was used.
        old_name: Option<&'static str>,
    },
    /// Bytes of a part without its transfer encoding.
    Binary {
        /// The part.
        section: Section,
        /// The range of its bytes.
        partial: Option<Partial>,
    },
    /// The number of bytes of a part without its transfer encoding.
    BinarySize(Section),
    /// The date of arrival in this mailbox (RFC 8514).
    SaveDate,
    /// The identifier of the message (RFC 8474).
    EmailId,
    /// The identifier of its thread (RFC 8474).
    ThreadId,
    /// The beginning of its text (RFC 8970).
    Preview {
        /// `true` if NIL may be returned instead of work.
        is_lazy: bool,
    },
}

impl FetchItem {
    /// Returns `true` if the bytes of the message are needed, even if its structure is known.
    fn needs_message(&self) -> bool {
        matches!(self, Self::Section { .. } | Self::Binary { .. } | Self::BinarySize(_))
    }

    /// Appends the output of [`fmt::Display`].
    pub fn push_name(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self {
            Self::Flags => b"FLAGS",
            Self::Uid => b"UID",
            Self::ModSeq => b"MODSEQ",
            Self::InternalDate => b"INTERNALDATE",
            Self::Rfc822Size => b"RFC822.SIZE",
            Self::Envelope => b"ENVELOPE",
            Self::Body => b"BODY",
            Self::BodyStructure => b"BODYSTRUCTURE",
            Self::SaveDate => b"SAVEDATE",
            Self::EmailId => b"EMAILID",
            Self::ThreadId => b"THREADID",
            Self::Preview { .. } => b"PREVIEW",
            Self::Section { .. } | Self::Binary { .. } | Self::BinarySize(_) => {
                return write!(out, "{self}").expect("because a Vec takes all that is written");
            }
        });
    }

    fn is_structure(&self) -> bool {
        matches!(self, Self::Body | Self::BodyStructure)
    }

    /// Returns `true` if the places of the parts are needed.
    fn needs_places(&self) -> bool {
        match self {
            Self::Section { section, .. } => section.needs_structure(),
            _ => self.binary_section().is_some(),
        }
    }

    /// Returns the section to decode.
    pub fn binary_section(&self) -> Option<&Section> {
        match self {
            Self::Binary { section, .. } | Self::BinarySize(section) => Some(section),
            _ => None,
        }
    }
}

/// Writes the name of the item in an answer.
impl fmt::Display for FetchItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = |f: &mut fmt::Formatter<'_>, partial: &Option<Partial>| match partial {
            Some(partial) => write!(f, "<{}>", partial.first),
            None => Ok(()),
        };
        match self {
            Self::Flags => f.write_str("FLAGS"),
            Self::Uid => f.write_str("UID"),
            Self::ModSeq => f.write_str("MODSEQ"),
            Self::InternalDate => f.write_str("INTERNALDATE"),
            Self::Rfc822Size => f.write_str("RFC822.SIZE"),
            Self::Envelope => f.write_str("ENVELOPE"),
            Self::Body => f.write_str("BODY"),
            Self::BodyStructure => f.write_str("BODYSTRUCTURE"),
            Self::Section { old_name: Some(name), .. } => f.write_str(name),
            Self::Section { section, partial, .. } => {
                write!(f, "BODY[{section}]")?;
                from(f, partial)
            }
            Self::Binary { section, partial } => {
                write!(f, "BINARY[{section}]")?;
                from(f, partial)
            }
            Self::BinarySize(section) => write!(f, "BINARY.SIZE[{section}]"),
            Self::SaveDate => f.write_str("SAVEDATE"),
            Self::EmailId => f.write_str("EMAILID"),
            Self::ThreadId => f.write_str("THREADID"),
            Self::Preview { .. } => f.write_str("PREVIEW"),
        }
    }
}

/// All items to fetch of each message, in the order of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchItems {
    items: Vec<FetchItem>,
    sets_seen: bool,
}

impl FetchItems {
    /// Parses items such as `FLAGS BODY[HEADER.FIELDS (TO)]`, with or without parentheses around
    /// them. Duplicates are removed.
    ///
    /// # Errors
    /// [`FetchError`] describes the problem.
    pub fn parse(text: &str) -> Result<Self, FetchError> {
        let text = text.trim();
        let inner = match text.strip_prefix('(') {
            Some(rest) => {
                let unbalanced = || FetchError::Unbalanced(text.to_owned());
                rest.strip_suffix(')').ok_or_else(unbalanced)?
            }
            None => text,
        };
        let mut items = Self::default();
        let mut words = words(inner)?.into_iter().peekable();
        while let Some(word) = words.next() {
            let is_preview = word.eq_ignore_ascii_case("PREVIEW");
            match words.next_if(|next| is_preview && next.eq_ignore_ascii_case("(LAZY)")) {
                Some(_) => items.add("PREVIEW (LAZY)")?,
                None => items.add(word)?,
            }
        }
        if items.items.is_empty() { Err(FetchError::Nothing) } else { Ok(items) }
    }

    /// Creates a request for a single item.
    pub fn of(item: FetchItem) -> Self {
        Self { items: vec![item], sets_seen: false }
    }

    /// Returns the items.
    pub fn items(&self) -> &[FetchItem] {
        &self.items
    }

    /// Adds the UID as the first item, if it is not requested yet.
    #[must_use]
    pub fn with_uid(mut self) -> Self {
        if !self.items.contains(&FetchItem::Uid) {
            self.items.insert(0, FetchItem::Uid);
        }
        self
    }

    /// Adds the mod-sequence, if it is not requested yet.
    #[must_use]
    pub fn with_modseq(mut self) -> Self {
        self.push(FetchItem::ModSeq);
        self
    }

    /// Returns `true` if only flags, UID and mod-sequence are requested.
    pub fn are_marks(&self) -> bool {
        let is_mark = |item: &FetchItem| {
            matches!(item, FetchItem::Flags | FetchItem::Uid | FetchItem::ModSeq)
        };
        self.items.iter().all(is_mark)
    }

    /// Returns `true` if messages must be read, whatever is cached.
    pub fn needs_message(&self) -> bool {
        self.items.iter().any(FetchItem::needs_message)
    }

    /// Returns `true` if the structure itself is requested.
    pub fn has_structure(&self) -> bool {
        self.items.iter().any(FetchItem::is_structure)
    }

    /// Returns `true` if a section is requested that needs the structure with its places.
    pub fn needs_places(&self) -> bool {
        self.items.iter().any(FetchItem::needs_places)
    }

    /// Returns `true` if the structure is needed for any item.
    pub fn needs_structure(&self) -> bool {
        self.has_structure() || self.needs_places()
    }

    /// Returns `true` if `item` is requested.
    pub fn has(&self, item: &FetchItem) -> bool {
        self.items.contains(item)
    }

    /// Returns `true` if the fetch sets \Seen: an item reads a text without `.PEEK`.
    pub fn sets_seen(&self) -> bool {
        self.sets_seen
    }

    fn push(&mut self, item: FetchItem) {
        if !self.items.contains(&item) {
            self.items.push(item);
        }
    }

    /// Adds an item, or those of a macro.
    pub(crate) fn add(&mut self, word: &str) -> Result<(), FetchError> {
        use FetchItem::{Body, BodyStructure, Envelope, Flags, InternalDate, Rfc822Size, Uid};
        if self.items.len() >= FETCH_ITEMS_MAX {
            return Err(FetchError::TooMany);
        }
        if let Some(open) = word.find('[') {
            let item = with_section(word, open)?;
            let peeks = word[..open].to_ascii_uppercase().ends_with(".PEEK");
            self.sets_seen |= !peeks && !matches!(item, FetchItem::BinarySize(_));
            self.push(item);
            return Ok(());
        }
        let old = |name, text| {
            let section = Section { part: Vec::new(), text };
            vec![FetchItem::Section { section, partial: None, old_name: Some(name) }]
        };
        let name = word.to_ascii_uppercase();
        self.sets_seen |= matches!(name.as_str(), "RFC822" | "RFC822.TEXT");
        let items = match name.as_str() {
            "FAST" => vec![Flags, InternalDate, Rfc822Size],
            "ALL" => vec![Flags, InternalDate, Rfc822Size, Envelope],
            "FULL" => vec![Flags, InternalDate, Rfc822Size, Envelope, Body],
            "FLAGS" => vec![Flags],
            "UID" => vec![Uid],
            "MODSEQ" => vec![FetchItem::ModSeq],
            "INTERNALDATE" => vec![InternalDate],
            "RFC822.SIZE" => vec![Rfc822Size],
            "ENVELOPE" => vec![Envelope],
            "BODY" => vec![Body],
            "BODYSTRUCTURE" => vec![BodyStructure],
            "SAVEDATE" => vec![FetchItem::SaveDate],
            "EMAILID" => vec![FetchItem::EmailId],
            "THREADID" => vec![FetchItem::ThreadId],
            "PREVIEW" => vec![FetchItem::Preview { is_lazy: false }],
            "PREVIEW (LAZY)" => vec![FetchItem::Preview { is_lazy: true }],
            // Outlook's name of BODY.PEEK[]; the answer of Cyrus has the name without PEEK.
            "RFC822" | "RFC822.PEEK" => old("RFC822", SectionText::Whole),
            "RFC822.HEADER" => old("RFC822.HEADER", SectionText::Header),
            "RFC822.TEXT" => old("RFC822.TEXT", SectionText::Text),
            _ => return Err(FetchError::UnknownItem(word.to_owned())),
        };
        items.into_iter().for_each(|item| self.push(item));
        Ok(())
    }
}

/// Splits at white space outside brackets.
fn words(text: &str) -> Result<Vec<&str>, FetchError> {
    let (mut words, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' if inside => return Err(FetchError::Unbalanced(text.to_owned())),
            b'[' => inside = true,
            b']' => inside = false,
            byte if byte.is_ascii_whitespace() && !inside => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(FetchError::Unbalanced(text.to_owned()));
    }
    words.push(&text[start..]);
    words.retain(|word| !word.is_empty());
    Ok(words)
}

/// Parses an item whose name ends before the bracket at `open`.
fn with_section(word: &str, open: usize) -> Result<FetchItem, FetchError> {
    let unbalanced = || FetchError::Unbalanced(word.to_owned());
    let close = word.rfind(']').filter(|close| *close > open).ok_or_else(unbalanced)?;
    let parsed = Section::parse(&word[open + 1..close]);
    let section = parsed.map_err(|source| FetchError::Section { item: word.to_owned(), source })?;
    let partial = partial(&word[close + 1..]);
    let partial = partial.ok_or_else(|| FetchError::BadPartial(word.to_owned()))?;
    let is_part = section.text == SectionText::Whole;
    match word[..open].to_ascii_uppercase().as_str() {
        "BODY" | "BODY.PEEK" => Ok(FetchItem::Section { section, partial, old_name: None }),
        "BINARY" | "BINARY.PEEK" if is_part => Ok(FetchItem::Binary { section, partial }),
        "BINARY.SIZE" if is_part && partial.is_none() => Ok(FetchItem::BinarySize(section)),
        _ => Err(FetchError::UnknownItem(word.to_owned())),
    }
}

/// Parses `["<" number ["." number] ">"]`; `None` if it is malformed.
fn partial(text: &str) -> Option<Option<Partial>> {
    if text.is_empty() {
        return Some(None);
    }
    let inner = text.strip_prefix('<')?.strip_suffix('>')?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse::<u64>().ok() } else { None }
    };
    let (first, count) = match inner.split_once('.') {
        Some((first, count)) => (first, Some(number(count).filter(|count| *count > 0)?)),
        None => (inner, None),
    };
    Some(Some(Partial { first: number(first)?, count }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let items = FetchItems::parse(text).unwrap();
        let names: Vec<String> = items.items().iter().map(ToString::to_string).collect();
        assert_eq!(names.join(" "), expected, "{text}");
    }

    #[test]
    fn items_are_read() {
        check("flags uid", "FLAGS UID");
        check("(FLAGS BODY.PEEK[header.fields (to \"Cc\")])", "FLAGS BODY[HEADER.FIELDS (TO CC)]");
        check("FULL", "FLAGS INTERNALDATE RFC822.SIZE ENVELOPE BODY");
        check("ALL FLAGS", "FLAGS INTERNALDATE RFC822.SIZE ENVELOPE");
        check("BODY[]<10.20> BODY[1.2.TEXT]", "BODY[]<10> BODY[1.2.TEXT]");
        check("binary[1.2]<0> BINARY.SIZE[2]", "BINARY[1.2]<0> BINARY.SIZE[2]");
        check("RFC822 RFC822.HEADER", "RFC822 RFC822.HEADER");
        check("RFC822.PEEK savedate emailid threadid", "RFC822 SAVEDATE EMAILID THREADID");
        check("(PREVIEW (lazy) UID)", "PREVIEW UID");
        check("preview (LAZY)", "PREVIEW");
        assert_eq!(
            FetchItems::parse("PREVIEW (LAZY)").unwrap().items(),
            [FetchItem::Preview { is_lazy: true }]
        );
    }

    #[test]
    fn reading_a_text_sets_seen_unless_it_peeks() {
        for text in ["BODY[]", "body[1]<0.9>", "UID BINARY[1]", "RFC822", "RFC822.TEXT"] {
            assert!(FetchItems::parse(text).unwrap().sets_seen(), "{text}");
        }
        let peeks = "BODY.PEEK[] BINARY.peek[1] BINARY.SIZE[1] RFC822.HEADER RFC822.PEEK BODY FULL";
        assert!(!FetchItems::parse(peeks).unwrap().sets_seen());
        assert!(FetchItems::parse(&format!("BODY[] {peeks}")).unwrap().sets_seen());
    }

    #[test]
    fn what_is_none_is_refused() {
        for bad in [
            "",
            "()",
            "(FLAGS",
            "NAME",
            "BODY[",
            "BODY[1]x",
            "BODY[]<>",
            "BODY[]<1.0>",
            "BODY[[]",
            "BINARY[TEXT]",
            "BINARY.SIZE[1]<0.1>",
            "BODY[]<-1.2>",
            "FLAGS[1]",
            "UID (LAZY)",
            "PREVIEW (EAGER)",
            "BODY.PEEK",
        ] {
            assert!(FetchItems::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(FetchItems::parse(&"BODY[1] ".repeat(9)).unwrap().items().len(), 1);
    }

    #[test]
    fn a_range_of_bytes_ends_with_them() {
        let check = |first, count, expected: &[u8]| {
            assert_eq!(Partial { first, count }.of(b"hello"), expected);
        };
        check(0, Some(2), b"he");
        check(3, Some(9), b"lo");
        check(9, Some(9), b"");
        check(2, None, b"llo");
        check(u64::MAX, Some(u64::MAX), b"");
    }
}
