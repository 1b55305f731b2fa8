//! The entries of a word list: those of tokens, of special keys, and of receipts.

use crate::{date_of, day_of};

/// Numbers of spam and ham messages, of a token or of the whole list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Number of spam messages.
    pub spam: u32,
    /// Number of ham messages (bogofilter: good).
    pub ham: u32,
}

impl Counts {
    /// Creates both counts.
    pub const fn new(spam: u32, ham: u32) -> Self {
        Self { spam, ham }
    }
}

/// The entry of a token. A token without an entry has the counts 0 and 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TokenEntry {
    /// Number of spam messages with the token.
    pub spam: u32,
    /// Number of ham messages with the token.
    pub ham: u32,
    /// The day of the last change as YYYYMMDD; 0 if there is none.
    pub date: u32,
}

impl TokenEntry {
    /// Returns the counts without the date.
    pub const fn counts(self) -> Counts {
        Counts { spam: self.spam, ham: self.ham }
    }
}

/// The class with which a message was trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Spam.
    Spam,
    /// Ham.
    Ham,
}

impl Class {
    /// Returns counts of `n` messages of this class.
    pub const fn counts(self, n: u32) -> Counts {
        match self {
            Self::Spam => Counts { spam: n, ham: 0 },
            Self::Ham => Counts { spam: 0, ham: n },
        }
    }
}

/// The record of a trained message; its key is the hash of the message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The class of the training.
    pub class: Class,
    /// The way in which its tokens were made, as a number that the caller defines.
    pub profile: u8,
    /// The lower 32 bits of the list's generation after the training.
    pub generation: u32,
    /// The day of the training as YYYYMMDD; 0 if there is none.
    pub date: u32,
}

/// Special keys that are not tokens, as bogofilter writes them.
pub mod keys {
    /// Numbers of trained messages, spam and ham.
    pub const MSG_COUNT: &[u8] = b".MSG_COUNT";
    /// Encoding of tokens, stored as the spam count: 0 unknown, 1 as in the message, 2 UTF-8.
    pub const ENCODING: &[u8] = b".ENCODING";
    /// Version of bogofilter's token rules, stored as the spam count.
    pub const WORDLIST_VERSION: &[u8] = b".WORDLIST_VERSION";
    /// The value of robx times one million, stored as the spam count.
    pub const ROBX: &[u8] = b".ROBX";
    /// All special keys.
    pub(crate) const ALL: [&[u8]; 4] = [MSG_COUNT, ENCODING, WORDLIST_VERSION, ROBX];
    /// The value of [`WORDLIST_VERSION`] in new lists.
    pub const VERSION: u32 = 20_040_500;
}

/// Length of the key of a receipt, in bytes.
pub(crate) const RECEIPT_KEY_LEN: usize = 17;

/// Returns the key of a receipt: a zero byte, with which no token begins, and the hash.
pub(crate) fn receipt_key(content: u128) -> [u8; RECEIPT_KEY_LEN] {
    let mut key = [0; RECEIPT_KEY_LEN];
    key[1..].copy_from_slice(&content.to_be_bytes());
    key
}

/// Returns the content hash in the key of a receipt; `None` for other keys.
pub(crate) fn content_of(key: &[u8]) -> Option<u128> {
    let key: &[u8; RECEIPT_KEY_LEN] = key.try_into().ok()?;
    let (zero, content) = key.split_first()?;
    (*zero == 0).then(|| content.iter().fold(0, |all, byte| all << 8 | u128::from(*byte)))
}

/// Returns `true` for the keys of receipts and for the internal keys of a list, which begin with a
/// zero byte and are hidden from callers.
pub(crate) fn is_receipt(key: &[u8]) -> bool {
    key.first() == Some(&0)
}

impl Receipt {
    /// Encodes the receipt in the counts of an entry, which are faster to look up than dates.
    pub(crate) fn to_entry(self) -> TokenEntry {
        let class = match self.class {
            Class::Spam => 1,
            Class::Ham => 2,
        };
        let day = day_of(self.date).and_then(|day| u16::try_from(day).ok()).unwrap_or(0);
        let spam = class | u32::from(self.profile) << 8 | u32::from(day) << 16;
        TokenEntry { spam, ham: self.generation, date: self.date }
    }

    /// Decodes a receipt; `None` if the training was undone.
    pub(crate) fn of_counts(counts: Counts) -> Option<Self> {
        let class = match counts.spam & 0xff {
            1 => Class::Spam,
            2 => Class::Ham,
            _ => return None,
        };
        let profile = (counts.spam >> 8) as u8;
        let date = match counts.spam >> 16 {
            0 => 0,
            day => date_of(day),
        };
        Some(Self { class, profile, generation: counts.ham, date })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_come_back() {
        for (class, date) in [(Class::Spam, 20_261_122), (Class::Ham, 0)] {
            let receipt = Receipt { class, profile: 200, generation: 77, date };
            assert_eq!(Receipt::of_counts(receipt.to_entry().counts()), Some(receipt));
        }
        assert_eq!(Receipt::of_counts(Counts::default()), None);
        assert_eq!(content_of(&receipt_key(1 << 100 | 7)), Some(1 << 100 | 7));
        assert!(is_receipt(&receipt_key(u128::MAX)) && !is_receipt(keys::MSG_COUNT));
    }
}
