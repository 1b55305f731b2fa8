//! What a word list holds for a token, and its keys that are none.

use crate::{date_of, day_of};

/// How many spam and ham messages; of a token, or of the whole list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Spam messages.
    pub spam: u32,
    /// Ham messages (bogofilter: good).
    pub ham: u32,
}

impl Counts {
    /// Both counts.
    pub const fn new(spam: u32, ham: u32) -> Self {
        Self { spam, ham }
    }
}

/// All that a list holds for a token. A token that is not there counts as 0 and 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Spam messages with the token.
    pub spam: u32,
    /// Ham messages with the token.
    pub ham: u32,
    /// The day of the last change as YYYYMMDD; 0 for none.
    pub date: u32,
}

impl Entry {
    /// Without the date.
    pub const fn counts(self) -> Counts {
        Counts { spam: self.spam, ham: self.ham }
    }
}

/// What a message was trained as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// As spam.
    Spam,
    /// As ham.
    Ham,
}

impl Class {
    /// `n` messages of this class.
    pub const fn counts(self, n: u32) -> Counts {
        match self {
            Self::Spam => Counts { spam: n, ham: 0 },
            Self::Ham => Counts { spam: 0, ham: n },
        }
    }
}

/// What is remembered of a message that was trained; its key is the hash of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// What it was trained as.
    pub class: Class,
    /// How its tokens were made: a number of the caller's.
    pub profile: u8,
    /// The list's generation after the training, its lower 32 bits.
    pub generation: u32,
    /// The day of the training as YYYYMMDD; 0 for none.
    pub date: u32,
}

/// Keys that are no tokens, as bogofilter writes them.
pub mod keys {
    /// How many messages were trained: spam and ham.
    pub const MSG_COUNT: &[u8] = b".MSG_COUNT";
    /// How tokens are encoded, in the place of spam: 0 unknown, 1 as they came, 2 UTF-8.
    pub const ENCODING: &[u8] = b".ENCODING";
    /// Which version of bogofilter's rules made the tokens, in the place of spam.
    pub const WORDLIST_VERSION: &[u8] = b".WORDLIST_VERSION";
    /// A million times robx, in the place of spam.
    pub const ROBX: &[u8] = b".ROBX";
    /// All of them.
    pub(crate) const ALL: [&[u8]; 4] = [MSG_COUNT, ENCODING, WORDLIST_VERSION, ROBX];
    /// The value of [`WORDLIST_VERSION`] in new lists.
    pub const VERSION: u32 = 20_040_500;
}

/// The length of the key of a receipt.
pub(crate) const RECEIPT_KEY_LEN: usize = 17;

/// The key of a receipt. No token begins with a zero.
pub(crate) fn receipt_key(content: u128) -> [u8; RECEIPT_KEY_LEN] {
    let mut key = [0; RECEIPT_KEY_LEN];
    key[1..].copy_from_slice(&content.to_be_bytes());
    key
}

/// The hash of the content that a receipt is of.
pub(crate) fn content_of(key: &[u8]) -> Option<u128> {
    let key: &[u8; RECEIPT_KEY_LEN] = key.try_into().ok()?;
    let (zero, content) = key.split_first()?;
    (*zero == 0).then(|| content.iter().fold(0, |all, byte| all << 8 | u128::from(*byte)))
}

/// Whether a key is that of a receipt, which is shown to nobody.
pub(crate) fn is_receipt(key: &[u8]) -> bool {
    key.first() == Some(&0)
}

impl Receipt {
    /// All of it is in the counts, which are found faster than dates.
    pub(crate) fn to_entry(self) -> Entry {
        let class = match self.class {
            Class::Spam => 1,
            Class::Ham => 2,
        };
        let day = day_of(self.date).and_then(|day| u16::try_from(day).ok()).unwrap_or(0);
        let spam = class | u32::from(self.profile) << 8 | u32::from(day) << 16;
        Entry { spam, ham: self.generation, date: self.date }
    }

    /// `None` where a training was taken back.
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
