//! System flags and keywords (RFC 9051 §2.3.2).

use std::fmt;

/// A system flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Flag {
    /// Read.
    Seen = 1,
    /// Replied to.
    Answered = 2,
    /// Marked for attention.
    Flagged = 4,
    /// Marked for removal by a later expunge.
    Deleted = 8,
    /// Not finished.
    Draft = 16,
    /// Not yet announced to any session.
    Recent = 32,
}

impl Flag {
    /// All system flags in the order in which they are printed.
    pub const ALL: [Flag; 6] =
        [Flag::Answered, Flag::Flagged, Flag::Deleted, Flag::Seen, Flag::Draft, Flag::Recent];

    /// Returns the name on the wire, with its backslash.
    pub const fn name(self) -> &'static str {
        match self {
            Flag::Seen => "\\Seen",
            Flag::Answered => "\\Answered",
            Flag::Flagged => "\\Flagged",
            Flag::Deleted => "\\Deleted",
            Flag::Draft => "\\Draft",
            Flag::Recent => "\\Recent",
        }
    }
}

/// A set of system flags, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FlagSet(u8);

impl FlagSet {
    /// No flag.
    pub const EMPTY: Self = Self(0);

    /// Rebuilds a set from [`FlagSet::bits`]; bits that name no flag are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0x3f)
    }

    /// Returns the set as bits, as stored in caches.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns `true` if `flag` is set.
    pub const fn contains(self, flag: Flag) -> bool {
        self.0 & flag as u8 != 0
    }

    /// Returns the set with `flag` added.
    #[must_use]
    pub const fn with(self, flag: Flag) -> Self {
        Self(self.0 | flag as u8)
    }

    /// Returns the set with `flag` removed.
    #[must_use]
    pub const fn without(self, flag: Flag) -> Self {
        Self(self.0 & !(flag as u8))
    }

    /// Returns the flags of the set, in printing order.
    pub fn iter(self) -> impl Iterator<Item = Flag> {
        Flag::ALL.into_iter().filter(move |flag| self.contains(*flag))
    }
}

impl FromIterator<Flag> for FlagSet {
    fn from_iter<T: IntoIterator<Item = Flag>>(flags: T) -> Self {
        flags.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Debug for FlagSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// A user-defined flag: an IMAP atom, compared without regard to ASCII case.
#[derive(Clone, Debug, Eq)]
pub struct Keyword(Box<str>);

impl Keyword {
    /// The longest keyword accepted, in bytes.
    pub const LEN_MAX: usize = 255;

    /// Checks a name: 1 to [`Keyword::LEN_MAX`] printable bytes without space, `(){}%*"\]`
    /// (RFC 9051 §9, `flag-keyword`; 8-bit text is let through, as Dovecot does).
    pub fn new(name: &str) -> Option<Self> {
        let valid = |byte: u8| byte > b' ' && byte != 0x7f && !b"(){}%*\"\\]".contains(&byte);
        let sized = (1..=Self::LEN_MAX).contains(&name.len());
        (sized && name.bytes().all(valid)).then(|| Self(name.into()))
    }

    /// Returns the name as first seen.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Keyword {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

/// The keywords of one message: bit `i` stands for the `i`-th name of the mailbox's
/// [`KeywordTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeywordMask(pub u64);

/// The keywords of a mailbox in the order of their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeywordTable(Vec<Keyword>);

/// The error of [`KeywordTable::intern`]: every slot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mailbox already has {} keywords, which is the limit", KeywordTable::SLOTS_MAX)]
pub struct KeywordTableFull;

impl KeywordTable {
    /// The most keywords of one mailbox (c-client keeps 30, a Maildir 26 in file names).
    pub const SLOTS_MAX: usize = 64;

    /// Returns the names in slot order.
    pub fn names(&self) -> &[Keyword] {
        &self.0
    }

    /// Returns the slot of a name, if it has one.
    pub fn slot(&self, keyword: &Keyword) -> Option<u32> {
        self.0.iter().position(|known| known == keyword).map(|slot| slot as u32)
    }

    /// Returns the slot of a name, which is added if it is new.
    pub fn intern(&mut self, keyword: &Keyword) -> Result<u32, KeywordTableFull> {
        if let Some(slot) = self.slot(keyword) {
            return Ok(slot);
        }
        if self.0.len() == Self::SLOTS_MAX {
            return Err(KeywordTableFull);
        }
        self.0.push(keyword.clone());
        Ok(self.0.len() as u32 - 1)
    }

    /// Returns the names whose bits are set in `mask`.
    pub fn select(&self, mask: KeywordMask) -> impl Iterator<Item = &Keyword> {
        self.0.iter().enumerate().filter(move |(slot, _)| mask.0 >> slot & 1 == 1).map(|(_, k)| k)
    }
}

impl FromIterator<Keyword> for KeywordTable {
    /// Collects names into slots; skips duplicates and names beyond the last slot.
    fn from_iter<T: IntoIterator<Item = Keyword>>(keywords: T) -> Self {
        let mut table = Self::default();
        for keyword in keywords {
            if table.intern(&keyword).is_err() {
                break;
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyword_is_an_atom() {
        assert!(Keyword::new("$Forwarded").is_some());
        for bad in ["", "a b", "a)", "\\Seen", "x\u{7f}"] {
            assert!(Keyword::new(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn slots_are_reused_without_regard_to_case() {
        let mut table = KeywordTable::default();
        assert_eq!(table.intern(&Keyword::new("Junk").unwrap()), Ok(0));
        assert_eq!(table.intern(&Keyword::new("todo").unwrap()), Ok(1));
        assert_eq!(table.intern(&Keyword::new("JUNK").unwrap()), Ok(0));
        let names: Vec<_> = table.select(KeywordMask(2)).map(Keyword::as_str).collect();
        assert_eq!(names, ["todo"]);
    }
}
