//! `bogoutil -m` and `-u`: words go, are renamed, and a list says what it is written in.

use std::cell::Cell;

use barid::spam::AnyList;
use barid::wordlist::{Change, Entry, keys};

use super::super::{Stop, tell};
use super::Asked;

/// What [`keys::ENCODING`] says.
const UNKNOWN: u32 = 0;
const RAW: u32 = 1;
const UTF8: u32 = 2;

/// The prefix of IP addresses in lists of old versions, and now.
const OLD_PREFIX: &[u8] = b"url:";
const PREFIX: &[u8] = b"ip:";

/// Writes a word otherwise.
type Convert = fn(&[u8]) -> Vec<u8>;

impl Asked {
    pub(super) fn tend(&self, list: &mut AnyList, upgrades: bool) -> Result<(), Stop> {
        let before = list.entry(keys::ENCODING)?.map_or(RAW, |entry| entry.spam);
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
        let (is_renamed, version) = (Cell::new(false), Cell::new(0));
        let mut decide = |token: &[u8], entry: Entry| {
            if token == keys::MSG_COUNT {
                return Change::Keep;
            }
            if self.what.discards(token, entry) {
                return Change::Drop;
            }
            if token == keys::WORDLIST_VERSION {
                version.set(entry.spam);
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
        // What words are written in and what says so become others at once.
        list.rewrite_beside(&mut decide, &mut |batch| {
            // bogoutil forgets today where it renames.
            let date = if is_renamed.get() { 0 } else { self.date };
            let mut set = |key, spam| batch.set(key, Entry { spam, ham: 0, date });
            if before != after {
                set(keys::ENCODING, after)?;
            }
            if upgrades && version.get() < keys::VERSION {
                set(keys::WORDLIST_VERSION, keys::VERSION)?;
            }
            Ok(())
        })?;
        match (upgrades, version.get() < keys::VERSION) {
            (false, _) => {}
            (true, true) => tell(b"Upgrading wordlist.\n"),
            (true, false) => tell(b"Wordlist has already been upgraded.\n"),
        }
        Ok(())
    }

    /// What a word is called from now on.
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

/// Bytes of ISO-8859-1 in UTF-8.
fn to_utf8(token: &[u8]) -> Vec<u8> {
    let text: String = token.iter().map(|byte| char::from(*byte)).collect();
    text.into_bytes()
}

/// UTF-8 in ISO-8859-1. Bytes of what is not in that stay.
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

    use barid::vfs::{CrashVfs, MemVfs, Vfs};
    use barid::wordlist::{Batch, Counts, Created, Native, WordList as _};

    use super::*;

    const PATH: &str = "/words/list";

    fn open(vfs: &(impl Vfs + Clone + 'static)) -> AnyList {
        Box::new(Native::open(Arc::new(vfs.clone()), PATH.as_ref()).unwrap())
    }

    /// A list never says that its words are written in what they are not.
    #[test]
    fn a_crash_leaves_words_and_their_encoding_together() {
        let disk = MemVfs::new();
        disk.create_dir("/words".as_ref(), 0o700).unwrap();
        let created = Created { date: 20_261_122, encoding: Some(UTF8) };
        let mut list = Native::create(Arc::new(disk.clone()), PATH.as_ref(), &created).unwrap();
        let mut batch = Batch::new(20_261_122);
        batch.change("caf\u{e9}".as_bytes(), Counts::new(1, 0), Counts::default()).unwrap();
        list.update(&batch).unwrap();
        let world = CrashVfs::new(&disk);
        let asked = Asked { is_unicode: Some(false), ..Asked::new(20_261_122) };
        asked.tend(&mut open(&world.vfs()), false).unwrap();
        let mut found = Vec::new();
        for (point, seed) in
            (0..=world.points()).flat_map(|point| (0..5).map(move |seed| (point, seed)))
        {
            let mut list = open(&world.crash_at(point, seed));
            let words =
                ["caf\u{e9}".as_bytes(), b"caf\xe9"].map(|it| list.entry(it).unwrap().is_some());
            let encoding = list.entry(keys::ENCODING).unwrap().unwrap().spam;
            match encoding {
                UTF8 => assert_eq!(words, [true, false], "point {point}, seed {seed}"),
                _ => assert_eq!(
                    (encoding, words),
                    (RAW, [false, true]),
                    "point {point}, seed {seed}"
                ),
            }
            found.push(encoding);
        }
        assert!(world.points() > 5 && found.contains(&UTF8) && found.last() == Some(&RAW));
    }

    #[test]
    fn words_are_converted() {
        assert_eq!(to_utf8(b"caf\xe9"), "caf\u{e9}".as_bytes());
        assert_eq!(to_latin1("caf\u{e9}".as_bytes()), b"caf\xe9");
        assert_eq!(to_latin1("\u{4e2d}x\u{fc}".as_bytes()), b"\xe4\xb8\xadx\xfc");
        assert_eq!(to_latin1(b"a\xff"), b"a\xff");
    }
}
