//! `bogoutil -m` and `-u`: words go, are renamed, and a list says what it is written in.

use barid::spam::AnyList;
use barid::wordlist::{Batch, Change, Entry, keys};

use super::super::{Stop, tell};
use super::Asked;

/// What [`keys::ENCODING`] says.
const UNKNOWN: u32 = 0;
const RAW: u32 = 1;
const UTF8: u32 = 2;

/// The prefix of IP addresses in lists of old versions, and now.
const OLD_PREFIX: &[u8] = b"url:";
const PREFIX: &[u8] = b"ip:";

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
            (RAW, UTF8) => Some(to_utf8 as fn(&[u8]) -> Vec<u8>),
            (UTF8 | UNKNOWN, RAW) => Some(to_latin1 as fn(&[u8]) -> Vec<u8>),
            _ => None,
        };
        let mut is_renamed = false;
        list.rewrite(&mut |token, entry| {
            if token == keys::MSG_COUNT {
                return Change::Keep;
            }
            if self.what.discards(token, entry) {
                return Change::Drop;
            }
            let mut name = token.to_vec();
            if self.what.replace_non_ascii {
                name.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
            } else if let Some(convert) = convert {
                name = convert(&name);
            }
            if let Some(rest) = name.strip_prefix(OLD_PREFIX).filter(|_| upgrades)
                && !rest.is_empty()
            {
                name = [PREFIX, rest].concat();
            }
            match name == token {
                true => Change::Keep,
                false => {
                    is_renamed = true;
                    Change::Rename(name)
                }
            }
        })?;
        // bogoutil forgets today where it renames.
        let date = if is_renamed { 0 } else { self.date };
        let mut batch = Batch::new(date);
        let mut set = |key, spam| batch.set(key, Entry { spam, ham: 0, date });
        if before != after {
            set(keys::ENCODING, after)?;
        }
        if upgrades {
            let version = list.entry(keys::WORDLIST_VERSION)?.map_or(0, |entry| entry.spam);
            if version < keys::VERSION {
                tell(b"Upgrading wordlist.\n");
                set(keys::WORDLIST_VERSION, keys::VERSION)?;
            } else {
                tell(b"Wordlist has already been upgraded.\n");
            }
        }
        if !batch.is_empty() {
            list.update(&batch)?;
        }
        Ok(())
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
    use super::*;

    #[test]
    fn words_are_converted() {
        assert_eq!(to_utf8(b"caf\xe9"), "caf\u{e9}".as_bytes());
        assert_eq!(to_latin1("caf\u{e9}".as_bytes()), b"caf\xe9");
        assert_eq!(to_latin1("\u{4e2d}x\u{fc}".as_bytes()), b"\xe4\xb8\xadx\xfc");
        assert_eq!(to_latin1(b"a\xff"), b"a\xff");
    }
}
