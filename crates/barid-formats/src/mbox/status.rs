//! The end of a header, and the header fields that mailboxes own: Status, X-Status, X-Keywords,
//! X-UID, X-IMAP and X-IMAPbase; and Content-Length.
//!
//! All are found in the pass that looks for the end of the header. Flag letters are accepted in
//! both Status and X-Status, as in c-client; names are compared without regard to ASCII case, as in
//! Dovecot.

use barid_state::MessageKey;
use barid_types::{Flag, FlagSet, Keyword, KeywordMask, KeywordTable, UidValidity};
use memchr::memchr;
use xxhash_rust::xxh3::xxh3_64;

use super::from_line::{self, FromProfile};
use super::layout::{
    BASE_NUMBER_MAX, DROPS_MAX, FROM_LINE_LEN_MAX, HEADER_LEN_MAX, MMDF_SEPARATOR,
};

/// End of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadEnd {
    /// A blank line.
    Blank,
    /// The separator of the next message.
    Separator,
    /// The end of the file.
    Eof,
    /// The length limit: more of the header follows.
    Cut,
}

/// Start and end of a range of a header.
type HeaderRange = (u32, u32);

/// Values of the header fields that mailboxes own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owned {
    flags: FlagSet,
    old: bool,
    /// Value of X-UID.
    pub(super) uid: Option<u32>,
    /// Value of Content-Length.
    pub(super) content_length: Option<u64>,
    has_content_length: bool,
    keywords: Option<HeaderRange>,
    base: Option<HeaderRange>,
    /// `true` if `base` is the value of X-IMAP.
    pub(super) pseudo: bool,
    /// Ranges of the fields that are not part of the message key. `drops` counts them; only the
    /// first [`DROPS_MAX`] are remembered.
    dropped: [HeaderRange; DROPS_MAX],
    drops: usize,
}

/// Kind of separator between the messages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separators {
    /// From_ lines.
    From(FromProfile),
    /// Lines of four control characters.
    Mmdf,
}

/// Finds the end of the header that `bytes` starts with; returns its length and what ends it.
/// `whole` means that nothing follows `bytes`. Returns `None` if the end is not in `bytes` and more
/// follows.
pub(super) fn head(
    bytes: &[u8],
    whole: bool,
    separators: Separators,
    owned: &mut Owned,
) -> Option<(usize, HeadEnd)> {
    let bounded = &bytes[..bytes.len().min(HEADER_LEN_MAX)];
    let cut = bounded.len() < bytes.len();
    let mut folds = Folds::Foreign;
    let mut line = 0;
    *owned = Owned::default();
    while let Some(first) = bounded.get(line) {
        let rest = &bounded[line..];
        match first {
            b'\n' => return Some((line + 1, HeadEnd::Blank)),
            b'\r' if rest.get(1) == Some(&b'\n') => return Some((line + 2, HeadEnd::Blank)),
            b'F' | 1 => match separator(&bytes[line..], whole, separators) {
                Some(true) => return Some((line, HeadEnd::Separator)),
                Some(false) => {}
                None => return None,
            },
            _ => {}
        }
        let line_end = match memchr(b'\n', rest) {
            Some(line_end) => line_end,
            None if cut => return Some((bounded.len(), HeadEnd::Cut)),
            None if whole => rest.len(),
            None => return None,
        };
        match first {
            b'S' | b'X' | b'C' | b's' | b'x' | b'c' => {
                folds = owned.note(&rest[..line_end], line as u32);
            }
            b' ' | b'\t' => owned.fold(folds, (line + line_end) as u32),
            _ => folds = Folds::Foreign,
        }
        line += line_end + 1;
    }
    match (whole, cut) {
        (_, true) => Some((bounded.len(), HeadEnd::Cut)),
        (true, false) => Some((bounded.len(), HeadEnd::Eof)),
        (false, false) => None,
    }
}

/// Returns `true` if `bytes` starts with a separator; `None` if more bytes are needed.
fn separator(bytes: &[u8], whole: bool, separators: Separators) -> Option<bool> {
    match separators {
        Separators::Mmdf => Some(bytes.starts_with(MMDF_SEPARATOR)),
        Separators::From(_) if !bytes.starts_with(b"From ") => Some(false),
        Separators::From(profile) => match memchr(b'\n', bytes) {
            Some(len) => Some(from_line_of(&bytes[..len], profile)),
            None if whole || bytes.len() > FROM_LINE_LEN_MAX => Some(false),
            None => None,
        },
    }
}

fn from_line_of(line: &[u8], profile: FromProfile) -> bool {
    line.len() < FROM_LINE_LEN_MAX
        && from_line::parse(line.strip_suffix(b"\r").unwrap_or(line), profile).is_some()
}

/// Field that a folded line continues.
#[derive(Clone, Copy)]
enum Folds {
    Foreign,
    Dropped,
    Keywords,
    Base,
}

impl Owned {
    /// Records the field in a line that starts at `offset` of the header.
    fn note(&mut self, line: &[u8], offset: u32) -> Folds {
        let Some(colon) = memchr(b':', line) else { return Folds::Foreign };
        let (name, value) = (line[..colon].trim_ascii_end(), &line[colon + 1..]);
        let stretch = (offset + colon as u32 + 1, offset + line.len() as u32);
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        let folds = match name.len() {
            6 if is(b"Status") => self.letters(value),
            8 if is(b"X-Status") => self.letters(value),
            5 if is(b"X-UID") => {
                self.uid = self.uid.or_else(|| unpadded(value));
                Folds::Dropped
            }
            10 if is(b"X-Keywords") => match self.keywords {
                Some(_) => Folds::Dropped,
                None => {
                    self.keywords = Some(stretch);
                    Folds::Keywords
                }
            },
            6 if is(b"X-IMAP") => self.note_base(stretch, true),
            10 if is(b"X-IMAPbase") => self.note_base(stretch, false),
            14 if is(b"Content-Length") => self.note_length(value),
            _ => return Folds::Foreign,
        };
        self.drop_stretch(offset, stretch.1 + 1);
        folds
    }

    fn note_base(&mut self, stretch: HeaderRange, pseudo: bool) -> Folds {
        if self.base.is_some() {
            return Folds::Dropped;
        }
        self.base = Some(stretch);
        self.pseudo = pseudo;
        Folds::Base
    }

    fn note_length(&mut self, value: &[u8]) -> Folds {
        if !self.has_content_length {
            self.has_content_length = true;
            self.content_length = std::str::from_utf8(value.trim_ascii())
                .ok()
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|text| text.parse().ok());
        }
        Folds::Dropped
    }

    fn fold(&mut self, folds: Folds, end: u32) {
        let stretch = match folds {
            Folds::Keywords => &mut self.keywords,
            Folds::Base => &mut self.base,
            Folds::Dropped => &mut None,
            Folds::Foreign => return,
        };
        if let Some(stretch) = stretch {
            stretch.1 = end;
        }
        if let Some(dropped) = self.dropped[..self.drops.min(DROPS_MAX)].last_mut() {
            dropped.1 = end + 1;
        }
    }

    /// Records a range that is not part of the message key.
    fn drop_stretch(&mut self, start: u32, end: u32) {
        if let Some(slot) = self.dropped.get_mut(self.drops) {
            *slot = (start, end);
        }
        self.drops += 1;
    }

    /// Returns the message key, equal to [`barid_message::header_key`], but without parsing the
    /// header again if the recorded ranges suffice.
    pub(super) fn key(&self, header: &[u8], scratch: &mut Vec<u8>) -> MessageKey {
        let Some(dropped) = self.dropped.get(..self.drops) else {
            return MessageKey(barid_message::header_key(header));
        };
        // A header that was cut short is rare as well.
        if memchr(b'\r', header).is_some() || !header.ends_with(b"\n") {
            return MessageKey(barid_message::header_key(header));
        }
        let blank = header == b"\n" || header.ends_with(b"\n\n");
        let text = &header[..header.len() - usize::from(blank)];
        if dropped.is_empty() {
            return MessageKey(xxh3_64(text));
        }
        scratch.clear();
        let mut from = 0;
        for (start, end) in dropped {
            scratch.extend_from_slice(&text[from..*start as usize]);
            from = (*end as usize).min(text.len());
        }
        scratch.extend_from_slice(&text[from..]);
        MessageKey(xxh3_64(scratch))
    }

    fn letters(&mut self, value: &[u8]) -> Folds {
        for letter in value {
            let flag = match letter {
                b'R' => Flag::Seen,
                b'D' => Flag::Deleted,
                b'F' => Flag::Flagged,
                b'A' => Flag::Answered,
                b'T' => Flag::Draft,
                b'O' => {
                    self.old = true;
                    continue;
                }
                _ => continue,
            };
            self.flags = self.flags.with(flag);
        }
        Folds::Dropped
    }

    /// Returns the flags; a message not marked old is \Recent.
    pub(super) fn flags(&self) -> FlagSet {
        if self.old { self.flags } else { self.flags.with(Flag::Recent) }
    }

    /// Returns `true` if there is an X-Keywords field.
    pub(super) fn has_keywords(&self) -> bool {
        self.keywords.is_some()
    }

    /// Returns the mask of the keywords of X-Keywords. `slot` gives the slot of a keyword; one for
    /// which it returns `None` is left out.
    pub(super) fn keywords(
        &self,
        header: &[u8],
        mut slot: impl FnMut(&Keyword) -> Option<u32>,
    ) -> KeywordMask {
        let mut mask = 0;
        for name in self.keywords.iter().flat_map(|stretch| words(header, *stretch)) {
            if let Some(slot) = keyword(name).and_then(|keyword| slot(&keyword)) {
                mask |= 1 << slot;
            }
        }
        KeywordMask(mask)
    }

    /// Parses X-IMAPbase or X-IMAP.
    pub(super) fn base(&self, header: &[u8]) -> Option<MailboxFields> {
        let (start, end) = self.base?;
        MailboxFields::read(header.get(start as usize..end as usize)?, self.pseudo)
    }
}

/// Properties of the whole mailbox from the header of the first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MailboxFields {
    /// UIDVALIDITY.
    pub(super) validity: UidValidity,
    /// The last UID assigned; 0 for none.
    pub(super) uid_last: u32,
    /// The keywords in the order of their slots.
    pub(super) keywords: KeywordTable,
    /// The first message is the pseudo message, which only carries this field.
    pub(super) pseudo: bool,
}

impl MailboxFields {
    /// Parses the value of the field; `None` also if its numbers exceed [`BASE_NUMBER_MAX`].
    pub(super) fn read(text: &[u8], pseudo: bool) -> Option<Self> {
        let mut words = words_of(text);
        let mut number = || unpadded(words.next()?);
        let validity = UidValidity::new(number()?)?;
        let uid_last = number()?;
        if validity.get().max(uid_last) > BASE_NUMBER_MAX {
            return None;
        }
        let keywords = words.filter_map(keyword).collect();
        Some(Self { validity, uid_last, keywords, pseudo })
    }
}

fn words(header: &[u8], stretch: HeaderRange) -> impl Iterator<Item = &[u8]> {
    words_of(header.get(stretch.0 as usize..stretch.1 as usize).unwrap_or_default())
}

/// Splits a text at white space.
pub(super) fn words_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Returns the keyword of that name, if it is a valid one.
pub(super) fn keyword(name: &[u8]) -> Option<Keyword> {
    Keyword::new(std::str::from_utf8(name).ok()?)
}

/// Parses a decimal number with white space around it.
pub(super) fn unpadded(text: &[u8]) -> Option<u32> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_that_of_the_message() {
        let pieces: &[&str] = &[
            "A: 1\n",
            "Status: RO\n",
            "status \t: R\n",
            " fold\n",
            "\tfold\n",
            "X-Keywords: a\n",
            "X-UID: 7\n",
            "Content-Length: 3\n",
            "X-IMAPbase: 1 2\n",
            "Subject: x\r\n",
            "Statusx\n",
            "\r\n",
            "X-Status:\n",
            "X-UID: 8",
            "Status",
            "\n",
            " \n",
            "X-IMAP : 1 1\n",
        ];
        for seed in 0..20_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let text: String =
                (0..rng.usize(0..14)).map(|_| pieces[rng.usize(0..pieces.len())]).collect();
            let mut owned = Owned::default();
            let separators = Separators::From(FromProfile::Union);
            let (len, _) = head(text.as_bytes(), true, separators, &mut owned).unwrap();
            let header = &text.as_bytes()[..len];
            let expected = MessageKey(barid_message::header_key(header));
            assert_eq!(owned.key(header, &mut Vec::new()), expected, "seed {seed}: {text:?}");
        }
    }
}
