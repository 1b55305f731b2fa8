//! Sort keys and programs (RFC 5256 §3, RFC 5957 §3).

use std::fmt;
use std::str::FromStr;

use crate::limits::SORT_KEYS_MAX;
use crate::{Profile, QueryError};

/// A sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortKey {
    /// The internal date.
    Arrival,
    /// The addr-mailbox of the first Cc address.
    Cc,
    /// The sent date, or the internal date without one.
    Date,
    /// The addr-mailbox of the first From address.
    From,
    /// RFC822.SIZE.
    Size,
    /// The base subject.
    Subject,
    /// The addr-mailbox of the first To address.
    To,
    /// The display name of the first From address, or the address (RFC 5957).
    DisplayFrom,
    /// The display name of the first To address, or the address (RFC 5957).
    DisplayTo,
}

impl SortKey {
    /// All keys, in the order of the RFCs.
    pub const ALL: [SortKey; 9] = [
        SortKey::Arrival,
        SortKey::Cc,
        SortKey::Date,
        SortKey::From,
        SortKey::Size,
        SortKey::Subject,
        SortKey::To,
        SortKey::DisplayFrom,
        SortKey::DisplayTo,
    ];

    /// Returns the name of the key in IMAP, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SortKey::Arrival => "arrival",
            SortKey::Cc => "cc",
            SortKey::Date => "date",
            SortKey::From => "from",
            SortKey::Size => "size",
            SortKey::Subject => "subject",
            SortKey::To => "to",
            SortKey::DisplayFrom => "displayfrom",
            SortKey::DisplayTo => "displayto",
        }
    }

    /// Returns `true` if messages compare by a number under this key, not by a text.
    #[must_use]
    pub fn is_number(self) -> bool {
        matches!(self, SortKey::Arrival | SortKey::Date | SortKey::Size)
    }
}

impl fmt::Display for SortKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for SortKey {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let plain = text.replace(['-', '_'], "");
        let found = SortKey::ALL.into_iter().find(|key| key.name().eq_ignore_ascii_case(&plain));
        found.ok_or_else(|| QueryError::UnknownSortKey(text.to_owned()))
    }
}

/// Sort keys, the most significant first, each with `true` if it is reversed.
///
/// Messages equal in all keys stay in the order of their sequence numbers, which is never reversed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SortProgram(pub Vec<(SortKey, bool)>);

impl SortProgram {
    /// Parses keys such as `date` and `reverse:size`.
    ///
    /// # Errors
    /// [`QueryError::UnknownSortKey`]; [`QueryError::TooMany`] beyond [`SORT_KEYS_MAX`] keys.
    pub fn parse<T: AsRef<str>>(keys: impl IntoIterator<Item = T>) -> Result<Self, QueryError> {
        let mut program = Vec::new();
        for key in keys {
            program.push(parse_key(key.as_ref())?);
            if program.len() > SORT_KEYS_MAX {
                let found = program.len();
                return Err(QueryError::TooMany { what: "sort keys", found, max: SORT_KEYS_MAX });
            }
        }
        Ok(Self(program))
    }

    /// Returns the program that a server makes of this one.
    ///
    /// Dovecot (`get_sort_program`) drops a repeated key, which changes nothing, but keeps its
    /// REVERSE, which then reverses the next key.
    #[must_use]
    pub fn read_by(&self, profile: Profile) -> SortProgram {
        if profile != Profile::Dovecot {
            return self.clone();
        }
        let mut program: Vec<(SortKey, bool)> = Vec::new();
        let mut turned = false;
        for &(key, reverse) in &self.0 {
            turned ^= reverse;
            if program.iter().all(|known| known.0 != key) {
                program.push((key, std::mem::take(&mut turned)));
            }
        }
        SortProgram(program)
    }
}

fn parse_key(text: &str) -> Result<(SortKey, bool), QueryError> {
    match text.split_once(':') {
        Some((prefix, key)) if prefix.eq_ignore_ascii_case("reverse") => Ok((key.parse()?, true)),
        _ => Ok((text.parse()?, false)),
    }
}

impl FromStr for SortProgram {
    type Err = QueryError;

    /// Parses keys separated by commas or spaces.
    fn from_str(text: &str) -> Result<Self, QueryError> {
        Self::parse(text.split([',', ' ']).filter(|key| !key.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(SortKey, bool)]) {
        assert_eq!(text.parse::<SortProgram>(), Ok(SortProgram(expected.to_vec())), "{text}");
    }

    #[test]
    fn programs() {
        check("", &[]);
        check("date", &[(SortKey::Date, false)]);
        check("reverse:date", &[(SortKey::Date, true)]);
        check("REVERSE:Display-From to", &[(SortKey::DisplayFrom, true), (SortKey::To, false)]);
        for key in SortKey::ALL {
            check(key.name(), &[(key, false)]);
        }
    }

    #[test]
    fn profile_difference_dovecot_keeps_the_reverse_of_a_repeated_key() {
        let read = |text: &str, profile| text.parse::<SortProgram>().unwrap().read_by(profile);
        let program = "reverse:date,size,reverse:date,subject,reverse:size,reverse:to";
        let dovecot = "reverse:date,size,reverse:subject,to".parse().unwrap();
        assert_eq!(read(program, Profile::Dovecot), dovecot);
        assert_eq!(read(program, Profile::Rfc), program.parse().unwrap());
        assert_eq!(read(program, Profile::CClient), program.parse().unwrap());
    }

    #[test]
    fn unknown_and_too_many() {
        assert!(matches!("date,age".parse::<SortProgram>(), Err(QueryError::UnknownSortKey(_))));
        assert!(matches!("up:date".parse::<SortProgram>(), Err(QueryError::UnknownSortKey(_))));
        let many = vec!["size"; SORT_KEYS_MAX + 1];
        assert!(matches!(SortProgram::parse(many), Err(QueryError::TooMany { .. })));
    }
}
