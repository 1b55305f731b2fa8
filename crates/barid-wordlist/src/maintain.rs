//! Removing tokens from a list by age, count or length, as `bogoutil -m` does; and merging two
//! lists.

use crate::entry::keys;
use crate::limits::BATCH_LEN;
use crate::{
    Batch, Change, Conflict, Conflicts, Result, Rewritten, TokenEntry, WordList, date_of, day_of,
};

/// Conditions for removing tokens. A token is removed if it meets all conditions that are set; if
/// none is set, nothing is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintain {
    /// Removes tokens whose date (YYYYMMDD) is this or earlier (`-a`; see [`oldest`]).
    pub date: Option<u32>,
    /// Removes tokens with no count above this (`-c`).
    pub count: Option<u32>,
    /// Removes tokens shorter than the first or longer than the second length, in bytes (`-s`).
    pub len: Option<(usize, usize)>,
    /// Replaces bytes above 127 by `?`, and adds up the counts of tokens that become equal (`-n`).
    pub replace_non_ascii: bool,
}

/// Converts the argument of `bogoutil -a` to a date YYYYMMDD: a small number means days before
/// `today`, others are dates already.
pub fn oldest(value: u32, today: u32) -> u32 {
    /// The first number that is a date, as in bogoutil.
    const FIRST: u32 = 20_020_801;
    match (value, day_of(today)) {
        (0, _) | (FIRST.., _) | (_, None) => value,
        (days, Some(today)) => date_of(today.saturating_sub(days)),
    }
}

impl Maintain {
    /// Returns `true` if a token is to be removed. [`keys::MSG_COUNT`], [`keys::ROBX`] and
    /// [`keys::ENCODING`] are always kept; [`keys::WORDLIST_VERSION`] is not, as in bogofilter.
    pub fn discards(&self, token: &[u8], entry: TokenEntry) -> bool {
        if [keys::MSG_COUNT, keys::ROBX, keys::ENCODING].contains(&token) {
            return false;
        }
        let by_date = self.date.map(|date| entry.date <= date);
        let by_count = self.count.map(|count| entry.spam <= count && entry.ham <= count);
        let by_len = self.len.map(|(min, max)| token.len() < min || token.len() > max);
        let tests = [by_date, by_count, by_len];
        tests.iter().any(Option::is_some) && tests.iter().flatten().all(|goes| *goes)
    }

    fn change(&self, token: &[u8], entry: TokenEntry) -> Change {
        if token == keys::MSG_COUNT {
            return Change::Keep;
        }
        if self.discards(token, entry) {
            return Change::Drop;
        }
        match self.replace_non_ascii && !token.is_ascii() {
            true => Change::Rename(replaced(token)),
            false => Change::Keep,
        }
    }
}

/// Returns a token with every byte above 127 replaced by `?`.
pub(crate) fn replaced(token: &[u8]) -> Vec<u8> {
    token.iter().map(|byte| if byte.is_ascii() { *byte } else { b'?' }).collect()
}

/// Removes tokens, and compacts the list.
///
/// # Errors
/// As [`WordList::rewrite`].
pub fn maintain(list: &mut dyn WordList, what: &Maintain) -> Result<Rewritten> {
    list.rewrite(&mut |token, entry| what.change(token, entry))
}

/// The result of [`merge`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// Number of tokens of the second list.
    pub tokens: u64,
    /// Messages with which both lists were trained. They are counted twice.
    pub twice: Vec<Conflict>,
}

/// Adds all tokens and receipts of `from` to `into`: counts are added up, and the later date is
/// kept. Special keys other than the number of messages are copied only if `into` has none. Atomic
/// up to 256 MB of tokens.
///
/// # Errors
/// As [`WordList::update`] and [`WordList::scan`].
pub fn merge(into: &mut dyn WordList, from: &mut dyn WordList, date: u32) -> Result<Merged> {
    let mut merged = Merged::default();
    let mut batch = Batch::new(date).on_conflict(Conflicts::Report);
    from.scan_receipts(&mut |content, receipt| {
        batch.train(content, receipt.class, receipt.profile);
    })?;
    let mut failed: Result<()> = Ok(());
    from.scan(&mut |token, entry| {
        failed = join(into, &mut batch, &mut merged, (token, entry));
        failed.is_ok()
    })?;
    failed?;
    merged.twice.extend(into.update(&batch)?.conflicts);
    Ok(merged)
}

fn join(
    into: &mut dyn WordList,
    batch: &mut Batch,
    merged: &mut Merged,
    (token, entry): (&[u8], TokenEntry),
) -> Result<()> {
    let is_said = [keys::ENCODING, keys::WORDLIST_VERSION, keys::ROBX].contains(&token);
    if is_said && into.entry(token)?.is_some() {
        return Ok(());
    }
    batch.join(token, entry)?;
    merged.tokens += u64::from(!is_said);
    if batch.bytes_len() > BATCH_LEN {
        merged.twice.extend(into.update(batch)?.conflicts);
        batch.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_if_all_tests_say_so() {
        let check = |what: Maintain, token: &[u8], goes: bool| {
            let entry = TokenEntry { spam: 1, ham: 3, date: 20_260_101 };
            assert_eq!(what.discards(token, entry), goes, "{what:?}");
        };
        let none = Maintain::default();
        let date = Some(20_260_101);
        check(none, b"token", false);
        check(Maintain { date, ..none }, b"token", true);
        check(Maintain { date: Some(20_251_231), ..none }, b"token", false);
        check(Maintain { count: Some(2), ..none }, b"token", false);
        check(Maintain { count: Some(3), ..none }, b"token", true);
        check(Maintain { count: Some(3), date: Some(1), ..none }, b"token", false);
        check(Maintain { len: Some((3, 5)), ..none }, b"token", false);
        check(Maintain { len: Some((3, 4)), ..none }, b"token", true);
        check(Maintain { date, ..none }, keys::MSG_COUNT, false);
        check(Maintain { date, ..none }, keys::ROBX, false);
        check(Maintain { date, ..none }, keys::ENCODING, false);
        check(Maintain { date, ..none }, keys::WORDLIST_VERSION, true);
    }

    #[test]
    fn small_dates_are_days() {
        let check = |value, date| assert_eq!(oldest(value, 20_261_122), date);
        check(0, 0);
        check(1, 20_261_121);
        check(22, 20_261_031);
        check(20_020_731, 19_700_101);
        check(20_020_801, 20_020_801);
    }
}
