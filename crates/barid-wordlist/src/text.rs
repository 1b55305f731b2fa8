//! Dumps of lists as text, as `bogoutil -d` writes and `bogoutil -l` reads them: token, spam, ham,
//! date.

use std::io::{BufRead, Read as _, Write};

use crate::entry::keys;
use crate::limits::{BATCH_LEN, CHUNK_LEN, LINE_LEN_MAX};
use crate::maintain::replaced;
use crate::{Batch, Error, Maintain, Result, TokenEntry, WordList};

/// Bytes that separate columns.
const SPACES: &[u8] = b" \x0c\n\r\t\x0b";
/// Shorter lines, with their line end, are skipped.
const LINE_LEN_MIN: usize = 4;

/// Writes a list, one token per line, in the order of the list, without the tokens that `without`
/// discards. Returns the number of lines.
///
/// # Errors
/// As [`WordList::scan`]; [`Error::Stream`].
pub fn dump(
    list: &mut dyn WordList,
    out: &mut dyn Write,
    without: Option<&Maintain>,
) -> Result<u64> {
    let mut text = Vec::with_capacity(CHUNK_LEN);
    let (mut lines, mut failed) = (0, Ok(()));
    let mut number = itoa::Buffer::new();
    list.scan(&mut |token, entry| {
        if without.is_some_and(|without| without.discards(token, entry)) {
            return true;
        }
        match without.is_some_and(|without| without.replace_non_ascii) {
            true => text.extend_from_slice(&replaced(token)),
            false => text.extend_from_slice(token),
        }
        let numbers = [entry.spam, entry.ham, entry.date];
        let columns = if entry.date == 0 { 2 } else { 3 };
        for column in &numbers[..columns] {
            text.push(b' ');
            text.extend_from_slice(number.format(*column).as_bytes());
        }
        text.push(b'\n');
        lines += 1;
        if text.len() >= CHUNK_LEN - LINE_LEN_MAX {
            failed = out.write_all(&text);
            text.clear();
        }
        failed.is_ok()
    })?;
    failed.and_then(|()| out.write_all(&text)).and_then(|()| out.flush()).map_err(Error::Stream)?;
    Ok(lines)
}

/// Options of [`load`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The date of tokens without one, as YYYYMMDD.
    pub today: u32,
    /// The longest token that is loaded, in bytes; `None` for no limit.
    pub token_len_max: Option<usize>,
    /// Conditions for tokens that are not loaded.
    pub without: Maintain,
    /// Loads all special keys, too, so that the list becomes the one that was dumped. bogoutil adds
    /// up [`keys::ENCODING`], and drops [`keys::ROBX`] and [`keys::WORDLIST_VERSION`].
    pub all_keys: bool,
}

/// The result of [`load`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// Number of tokens that were added.
    pub tokens: u64,
    /// Number of lines that were skipped.
    pub skipped: u64,
}

/// Adds the counts of a dump to those of the list; the dates become those of the dump. Atomic up to
/// 256 MB of tokens.
///
/// # Errors
/// [`Error::Text`] for a malformed line, [`Error::Stream`], and as [`WordList::update`].
pub fn load(list: &mut dyn WordList, input: &mut dyn BufRead, how: &Load) -> Result<Loaded> {
    let mut batch = Batch::new(how.today);
    let mut loaded = Loaded::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = input.take(LINE_LEN_MAX as u64 + 1);
        limited.read_until(b'\n', &mut line).map_err(Error::Stream)?;
        if line.is_empty() {
            break;
        }
        if line.len() > LINE_LEN_MAX {
            return Err(Error::Text { line: number, what: "too long" });
        }
        match parse(&line).map_err(|what| Error::Text { line: number, what })? {
            Some((token, entry)) if add(&mut batch, token, entry, how)? => loaded.tokens += 1,
            _ => loaded.skipped += 1,
        }
        if batch.bytes_len() > BATCH_LEN {
            list.update(&batch)?;
            batch.clear();
        }
    }
    list.update(&batch)?;
    Ok(loaded)
}

/// Checks that the input is a dump: every line has a token, two counts, and an optional date.
/// [`load`] is less strict, like bogoutil.
///
/// # Errors
/// [`Error::Text`] for the first malformed line, [`Error::Stream`].
pub fn check_dump(input: &mut dyn BufRead) -> Result<()> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        input.take(LINE_LEN_MAX as u64 + 1).read_until(b'\n', &mut line).map_err(Error::Stream)?;
        if line.is_empty() {
            break;
        }
        let text = line.trim_ascii_end();
        if line.len() > LINE_LEN_MAX || !(text.is_empty() || is_of_dump(text)) {
            let what = "not a line of a dump, which has a word, the counts of spam and ham, and a \
                        date";
            return Err(Error::Text { line: number, what });
        }
    }
    Ok(())
}

fn is_of_dump(line: &[u8]) -> bool {
    let mut columns = line.split(|byte| SPACES.contains(byte));
    let word = columns.next().unwrap_or_default();
    let mut numbers = columns.filter(|column| !column.is_empty());
    let are_numbers = numbers.by_ref().all(|column| column.iter().all(u8::is_ascii_digit));
    let count = line.split(|byte| SPACES.contains(byte)).filter(|it| !it.is_empty()).count();
    are_numbers && !word.is_empty() && !word.contains(&0) && (3..=4).contains(&count)
}

/// Adds a token to a batch; returns `false` if it is not to be loaded.
fn add(batch: &mut Batch, token: &[u8], mut entry: TokenEntry, how: &Load) -> Result<bool> {
    if how.token_len_max.is_some_and(|max| token.len() > max) {
        return Ok(false);
    }
    if entry.date == 0 {
        entry.date = how.today;
    }
    let is_said = [keys::ENCODING, keys::WORDLIST_VERSION, keys::ROBX].contains(&token);
    if how.all_keys && is_said {
        batch.set(token, entry)?;
        return Ok(true);
    }
    let counts =
        token.first() != Some(&b'.') || token == keys::MSG_COUNT || token == keys::ENCODING;
    if !(counts || how.all_keys) || how.without.discards(token, entry) {
        return Ok(false);
    }
    match how.without.replace_non_ascii {
        true => batch.add_dated(&replaced(token), entry)?,
        false => batch.add_dated(token, entry)?,
    }
    Ok(true)
}

/// Parses token and entry of a line; `None` for a line that is skipped.
fn parse(line: &[u8]) -> std::result::Result<Option<(&[u8], TokenEntry)>, &'static str> {
    let line = memchr::memchr(0, line).map_or(line, |end| &line[..end]);
    if line.len() < LINE_LEN_MIN {
        return Ok(None);
    }
    let is_space = |byte: &u8| SPACES.contains(byte);
    // Leading spaces are a part of the token, as in bogoutil.
    let start = line.iter().position(|byte| !is_space(byte)).unwrap_or(line.len());
    let end = line[start..].iter().position(is_space).map_or(line.len(), |len| start + len);
    let mut columns = line[end..].split(is_space).filter(|column| !column.is_empty());
    let mut number = || columns.next().map_or(0, number);
    let entry = TokenEntry { spam: number(), ham: number(), date: number() };
    match columns.next() {
        Some(_) => Err("more fields than a token, two counts and a date"),
        None if start == line.len() => Ok(None),
        None => Ok(Some((&line[..end], entry))),
    }
}

/// Parses a number like `atoi`; negative numbers become 0, and too large ones the maximum.
fn number(column: &[u8]) -> u32 {
    let digits = column.strip_prefix(b"+").unwrap_or(column);
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0_u32, |number, digit| {
        number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_bogoutil_does() {
        let check = |line: &[u8], expected: Option<(&[u8], u32, u32, u32)>| {
            let found = parse(line).unwrap();
            let found = found.map(|(token, entry)| (token, entry.spam, entry.ham, entry.date));
            assert_eq!(found, expected, "{}", line.escape_ascii());
        };
        check(b"word 1 2 20261122\n", Some((b"word", 1, 2, 20_261_122)));
        check(b"word 1 2\n", Some((b"word", 1, 2, 0)));
        check(b"word 1\r\n", Some((b"word", 1, 0, 0)));
        check(b"word", Some((b"word", 0, 0, 0)));
        check(b"a 1\n", Some((b"a", 1, 0, 0)));
        check(b"ab\n", None);
        check(b"    \n", None);
        check(b"  word\t3  4 \n", Some((b"  word", 3, 4, 0)));
        check(b"word -1 2x 4294967295\n", Some((b"word", 0, 2, u32::MAX)));
        check(b"word 99999999999 +7\n", Some((b"word", u32::MAX, 7, 0)));
        check(b"word\0 1 2\n", Some((b"word", 0, 0, 0)));
        assert!(parse(b"two words 1 2 20261122\n").is_err());
    }

    #[test]
    fn what_is_no_dump_is_told() {
        let check = |text: &str, expected: Option<u64>| {
            let line = match check_dump(&mut text.as_bytes()) {
                Err(Error::Text { line, .. }) => Some(line),
                checked => checked.map(|()| None).unwrap(),
            };
            assert_eq!(line, expected, "{text}");
        };
        check("", None);
        check("word 1 2 20261122\n.MSG_COUNT 1 2\r\n\nhead:x  3\t4 0", None);
        check("word 1 2\nword 1\n", Some(2));
        check("Subject: one\n", Some(1));
        check("word 1 2 3 4\n", Some(1));
        check("word 1 -2\n", Some(1));
        check(" word 1 2\n", Some(1));
        check("a\n", Some(1));
        check(&format!("{} 1 2\n", "x".repeat(5000)), Some(1));
    }
}
