//! `bogoutil -m` and `-u`: removes and renames words, and records the encoding of a list.

use std::cell::Cell;

use barid_wordlist::{AnyList, Change, Error, TokenEntry, keys};

use super::UtilSettings;
use crate::output::{Stop, print_error};

/// Values of [`keys::ENCODING`].
const UNKNOWN: u32 = 0;
const RAW: u32 = 1;
const UTF8: u32 = 2;

/// Attempts at a change while others keep changing the encoding of the list.
const TRIES: usize = 4;

/// The prefixes of IP addresses in lists of old versions, and now.
const OLD_PREFIX: &[u8] = b"url:";
const PREFIX: &[u8] = b"ip:";

/// A conversion of a word to another encoding.
type Convert = fn(&[u8]) -> Vec<u8>;

impl UtilSettings {
    pub(super) fn tend(&self, list: &mut AnyList, upgrades: bool) -> Result<(), Stop> {
        for _ in 0..TRIES {
            let before = list.entry(keys::ENCODING)?.map_or(RAW, |entry| entry.spam);
            if self.tend_from(before, list, upgrades)? {
                return Ok(());
            }
            list.refresh()?;
        }
        Err(Stop::error("bogoutil: other programs keep changing the encoding of the list"))
    }

    /// Maintains a list with the encoding `before`. Returns `false` if the list no longer has that
    /// encoding and nothing was done.
    fn tend_from(&self, before: u32, list: &mut AnyList, upgrades: bool) -> Result<bool, Stop> {
        let after = match self.is_unicode {
            Some(true) => UTF8,
            Some(false) => RAW,
            None if self.resets_encoding => UNKNOWN,
            None => before,
        };
        let convert = match (before, after) {
            (RAW, UTF8) => Some(to_utf8 as Convert),
            (UTF8 | UNKNOWN, RAW) => Some(to_latin1 as Convert),
            _ => None,
        };
        let (version, found) = (Cell::new(0), Cell::new(RAW));
        let (is_renamed, is_other) = (Cell::new(false), Cell::new(false));
        let mut decide = |token: &[u8], entry: TokenEntry| {
            if token == keys::MSG_COUNT {
                return Change::Keep;
            }
            if self.what.discards(token, entry) {
                return Change::Drop;
            }
            match token {
                keys::ENCODING => found.set(entry.spam),
                keys::WORDLIST_VERSION => version.set(entry.spam),
                _ => {}
            }
            let name = self.renamed(token, convert, upgrades);
            match name == token {
                true => Change::Keep,
                false => {
                    is_renamed.set(true);
                    Change::Rename(name)
                }
            }
        };
        // The words and the record of their encoding change atomically.
        let done = list.rewrite_beside(&mut decide, &mut |batch| {
            is_other.set(found.get() != before);
            if is_other.get() {
                return Err(Error::Refused { what: "the encoding of its words has changed" });
            }
            // bogoutil sets the date to 0 when it renames.
            let date = if is_renamed.get() { 0 } else { self.date };
            let mut set = |key, spam| batch.set(key, TokenEntry { spam, ham: 0, date });
            if before != after {
                set(keys::ENCODING, after)?;
            }
            if upgrades && version.get() < keys::VERSION {
                set(keys::WORDLIST_VERSION, keys::VERSION)?;
            }
            Ok(())
        });
        if is_other.get() {
            return Ok(false);
        }
        done?;
        match (upgrades, version.get() < keys::VERSION) {
            (false, _) => {}
            (true, true) => print_error(b"Upgrading wordlist.\n"),
            (true, false) => print_error(b"Wordlist has already been upgraded.\n"),
        }
        Ok(true)
    }

    /// Returns the new name of a word.
    fn renamed(&self, token: &[u8], convert: Option<Convert>, upgrades: bool) -> Vec<u8> {
        let mut name = token.to_vec();
        if self.what.replace_non_ascii {
            name.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
        } else if let Some(convert) = convert {
            name = convert(&name);
        }
        match name.strip_prefix(OLD_PREFIX) {
            Some(rest) if upgrades && !rest.is_empty() => [PREFIX, rest].concat(),
            _ => name,
        }
    }
}

/// Converts ISO-8859-1 to UTF-8.
fn to_utf8(token: &[u8]) -> Vec<u8> {
    let text: String = token.iter().map(|byte| char::from(*byte)).collect();
    text.into_bytes()
}

/// Converts UTF-8 to ISO-8859-1. Characters outside of it and invalid bytes stay.
fn to_latin1(token: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(token.len());
    for chunk in token.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match u8::try_from(letter) {
                Ok(byte) => bytes.push(byte),
                Err(_) => {
                    bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        bytes.extend_from_slice(chunk.invalid());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use barid_vfs::{CrashVfs, MemVfs, Vfs};
    use barid_wordlist::{Batch, Counts, Created, Native, WordList as _};

    use super::*;

    const PATH: &str = "/words/list";

    fn open(vfs: &(impl Vfs + Clone + 'static)) -> AnyList {
        Box::new(Native::open(Arc::new(vfs.clone()), PATH.as_ref()).unwrap())
    }

    const WORDS: [&[u8]; 2] = ["caf\u{e9}".as_bytes(), b"caf\xe9"];

    /// Creates a list of one word in UTF-8.
    fn made() -> MemVfs {
        let disk = MemVfs::new();
        disk.create_dir("/words".as_ref(), 0o700).unwrap();
        let created = Created { date: 20_261_122, encoding: Some(UTF8) };
        let mut list = Native::create(Arc::new(disk.clone()), PATH.as_ref(), &created).unwrap();
        let mut batch = Batch::new(20_261_122);
        batch.change(WORDS[0], Counts::new(1, 0), Counts::default()).unwrap();
        list.update(&batch).unwrap();
        disk
    }

    /// Returns the encoding of a list, and whether its word is there in each of the two encodings.
    fn found(list: &mut AnyList) -> (u32, [bool; 2]) {
        let encoding = list.entry(keys::ENCODING).unwrap().unwrap().spam;
        (encoding, WORDS.map(|word| list.entry(word).unwrap().is_some()))
    }

    fn to(is_unicode: bool) -> UtilSettings {
        UtilSettings { is_unicode: Some(is_unicode), ..UtilSettings::new(20_261_122) }
    }

    /// The recorded encoding of a list always matches its words.
    #[test]
    fn a_crash_leaves_words_and_their_encoding_together() {
        let world = CrashVfs::new(&made());
        to(false).tend(&mut open(&world.vfs()), false).unwrap();
        let mut all = Vec::new();
        for point in 0..=world.points() {
            for seed in 0..5 {
                all.push(found(&mut open(&world.crash_at(point, seed))));
            }
        }
        let (before, after) = ((UTF8, [true, false]), (RAW, [false, true]));
        assert!(all.iter().all(|found| [before, after].contains(found)), "{all:?}");
        assert!(world.points() > 5 && all.contains(&before) && all.last() == Some(&after));
    }

    /// Two concurrent conversions have the effect of one.
    #[test]
    fn words_that_another_converted_are_not_converted_again() {
        let disk = made();
        to(false).tend(&mut open(&disk), false).unwrap();
        let mut list = open(&disk);
        let mut other = open(&disk);
        to(true).tend(&mut other, false).unwrap();
        to(true).tend(&mut list, false).unwrap();
        assert_eq!(found(&mut list), (UTF8, [true, false]));
        assert_eq!(found(&mut open(&disk)), (UTF8, [true, false]));
    }

    #[test]
    fn words_are_converted() {
        assert_eq!(to_utf8(b"caf\xe9"), "caf\u{e9}".as_bytes());
        assert_eq!(to_latin1("caf\u{e9}".as_bytes()), b"caf\xe9");
        assert_eq!(to_latin1("\u{4e2d}x\u{fc}".as_bytes()), b"\xe4\xb8\xadx\xfc");
        assert_eq!(to_latin1(b"a\xff"), b"a\xff");
    }
}
