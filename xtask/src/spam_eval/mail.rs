//! The messages of the corpus dev-spam, and their division into training and test sets.

use std::path::PathBuf;

use anyhow::{Context, Result};
use barid_message::{fields, parse_date};
use barid_testkit::corpora;

/// Folders of the corpora; `true` for those of spam.
const FOLDERS: [(&str, bool); 4] = [
    ("spamassassin/spam", true),
    ("csdmc2010/not-in-spamassassin/spam", true),
    ("spamassassin/ham", false),
    ("csdmc2010/not-in-spamassassin/ham", false),
];

/// A message whose class is known.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) path: PathBuf,
    pub(super) is_spam: bool,
    /// Time of arrival in seconds since the Unix epoch, if the header has one.
    pub(super) date: Option<i64>,
}

/// Indexes of the messages to train with, and of those to test.
#[derive(Clone, Debug, Default)]
pub(super) struct Split {
    pub(super) train: Vec<usize>,
    pub(super) test: Vec<usize>,
}

/// Reads all messages. Returns `None` if a folder of the corpora is missing or only generated.
pub(super) fn messages() -> Result<Option<Vec<Message>>> {
    let mut messages = Vec::new();
    for (folder, is_spam) in FOLDERS {
        // Generated mail is no judge.
        let Some(files) = corpora::files(folder).filter(|_| corpora::is_real(folder)) else {
            return Ok(None);
        };
        for path in files {
            let bytes = corpora::read(&path).with_context(|| path.display().to_string())?;
            messages.push(Message { path, is_spam, date: arrived(&bytes) });
        }
    }
    Ok(Some(messages))
}

/// Returns splits for cross-validation: each message is tested in one of `folds` folds of equal
/// size, over which both classes are spread evenly.
pub(super) fn folds(messages: &[Message], folds: usize, seed: u64) -> Vec<Split> {
    let mut random = Random(seed);
    let mut splits = vec![Split::default(); folds];
    for is_spam in [true, false] {
        let of_class = |index: &usize| messages[*index].is_spam == is_spam;
        let mut order: Vec<usize> = (0..messages.len()).filter(of_class).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at + 1));
        }
        for (place, index) in order.into_iter().enumerate() {
            for (fold, split) in splits.iter_mut().enumerate() {
                let list = if place % folds == fold { &mut split.test } else { &mut split.train };
                list.push(index);
            }
        }
    }
    splits
}

/// Returns a split in which the older half trains and the newer one is tested, the division of
/// `barid spam tune --chronological`. Messages without a date are left out.
pub(super) fn halves(messages: &[Message]) -> Split {
    let mut order: Vec<(i64, usize)> = messages
        .iter()
        .enumerate()
        .filter_map(|(index, message)| Some((message.date?, index)))
        .collect();
    order.sort_unstable();
    let (older, newer) = order.split_at(order.len() / 2);
    let indexes = |half: &[(i64, usize)]| half.iter().map(|(_, index)| *index).collect();
    Split { train: indexes(older), test: indexes(newer) }
}

/// Returns the date of the topmost `Received` field, else that of `Date`, in seconds since the Unix
/// epoch.
fn arrived(message: &[u8]) -> Option<i64> {
    let start = if message.starts_with(b"From ") {
        message.iter().position(|byte| *byte == b'\n')? + 1
    } else {
        0
    };
    let find = |name: &[u8]| {
        let mut all = fields(&message[start..]);
        all.find(|field| field.name.eq_ignore_ascii_case(name)).map(|field| field.body)
    };
    let received = find(b"received").and_then(|body| {
        let at = body.iter().rposition(|byte| *byte == b';')?;
        parse_date(&body[at + 1..])
    });
    received.or_else(|| parse_date(find(b"date")?)).map(|date| date.unix_seconds)
}

/// Pseudo-random numbers (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ word >> 31) % bound as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(spam: usize, ham: usize) -> Vec<Message> {
        let message = |index: usize| Message {
            path: PathBuf::from(index.to_string()),
            is_spam: index < spam,
            date: (index % 10 != 9).then_some((index * 7 % 31) as i64),
        };
        (0..spam + ham).map(message).collect()
    }

    #[test]
    fn every_message_is_tested_once() {
        let messages = messages(23, 41);
        let splits = folds(&messages, 5, 3);
        let mut tested: Vec<usize> = splits.iter().flat_map(|split| split.test.clone()).collect();
        tested.sort_unstable();
        assert!(tested.into_iter().eq(0..64));
        for split in &splits {
            assert_eq!(split.train.len() + split.test.len(), 64);
            let spam = split.test.iter().filter(|index| messages[**index].is_spam).count();
            assert!((4..=5).contains(&spam), "{spam}");
        }
    }

    #[test]
    fn what_trains_is_older() {
        let messages = messages(30, 30);
        let split = halves(&messages);
        assert_eq!((split.train.len(), split.test.len()), (27, 27));
        let dates = |list: &[usize]| -> Vec<i64> {
            list.iter().map(|index| messages[*index].date.unwrap()).collect()
        };
        assert!(dates(&split.train).iter().max() <= dates(&split.test).iter().min());
    }
}
