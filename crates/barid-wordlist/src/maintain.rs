//! What keeps a list small: ageing and the like, as `bogoutil -m` does it; and two lists made one.

use crate::entry::keys;
use crate::limits::BATCH_LEN;
use crate::{
    Batch, Change, Conflict, Conflicts, Entry, Result, Rewritten, WordList, date_of, day_of,
};

/// Which tokens are to go. A token goes if all tests say so that are given; if none is, none goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintain {
    /// Those whose date, YYYYMMDD, is this or before it (`-a`; see [`oldest`]).
    pub date: Option<u32>,
    /// Those none of whose counts is above this (`-c`).
    pub count: Option<u32>,
    /// Those that have fewer bytes, or more (`-s`).
    pub len: Option<(usize, usize)>,
    /// Whether bytes above 127 become `?`; what is the same then is added up (`-n`).
    pub replace_non_ascii: bool,
}

/// What becomes of a date as `bogoutil -a` takes it: a small number is of days before `today`.
pub fn oldest(value: u32, today: u32) -> u32 {
    /// The first date that is one.
    const FIRST: u32 = 20_020_801;
    match (value, day_of(today)) {
        (0, _) | (FIRST.., _) | (_, None) => value,
        (days, Some(today)) => date_of(today.saturating_sub(days)),
    }
}

impl Maintain {
    /// Whether a token is to go. [`keys::MSG_COUNT`], [`keys::ROBX`] and [`keys::ENCODING`] never
    /// go; [`keys::WORDLIST_VERSION`] may, as in bogofilter.
    pub fn discards(&self, token: &[u8], entry: Entry) -> bool {
        if [keys::MSG_COUNT, keys::ROBX, keys::ENCODING].contains(&token) {
            return false;
        }
        let by_date = self.date.map(|date| entry.date <= date);
        let by_count = self.count.map(|count| entry.spam <= count && entry.ham <= count);
        let by_len = self.len.map(|(min, max)| token.len() < min || token.len() > max);
        let tests = [by_date, by_count, by_len];
        tests.iter().any(Option::is_some) && tests.iter().flatten().all(|goes| *goes)
    }

    fn change(&self, token: &[u8], entry: Entry) -> Change {
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

/// With `?` for every byte above 127.
pub(crate) fn replaced(token: &[u8]) -> Vec<u8> {
    token.iter().map(|byte| if byte.is_ascii() { *byte } else { b'?' }).collect()
}

/// Removes tokens, and makes the list as compact as it can be.
///
/// # Errors
/// As [`WordList::rewrite`].
pub fn maintain(list: &mut dyn WordList, what: &Maintain) -> Result<Rewritten> {
    list.rewrite(&mut |token, entry| what.change(token, entry))
}

/// What [`merge`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// Tokens of the second list.
    pub tokens: u64,
    /// Messages that both lists were trained with. They count twice.
    pub twice: Vec<Conflict>,
}

/// Adds all that `from` holds to `into`: counts are added up, the later date is taken; what the
/// list says of itself stays, where it says something. Atomic up to 256 MB of tokens.
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
    (token, entry): (&[u8], Entry),
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
            let entry = Entry { spam: 1, ham: 3, date: 20_260_101 };
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
