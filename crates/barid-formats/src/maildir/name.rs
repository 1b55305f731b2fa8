//! File names of a Maildir: `BASE[,S=SIZE][,W=SIZE][:2,FLAGS[,MORE]]`.
//!
//! The base, which identifies a message, ends at the *first* `:`; flags follow the *last* one (both
//! as in Dovecot 2.3 `maildir-filename.c`). Names are bytes; all except `/` are accepted.

use std::cmp::Ordering;

use barid_types::{Flag, FlagSet};
use barid_vfs::Metadata;

use super::layout::{FLAGS_SEP, INFO_SEP, LETTERS};

/// Returns the base name: everything before the first `:`.
pub(super) fn base(name: &[u8]) -> &[u8] {
    &name[..base_len(name)]
}

/// Returns the length of [`base`] in bytes.
pub(super) fn base_len(name: &[u8]) -> usize {
    memchr::memchr(INFO_SEP, name).unwrap_or(name.len())
}

/// Returns the base name without what mbsync adds to it: everything before `,U=` and a number,
/// which is the UID that mbsync gave the message. Returns the base name itself if there is no such
/// field.
pub(super) fn stem(base: &[u8]) -> &[u8] {
    let is_at = |at: &usize| base[at + 1..].starts_with(b"U=");
    let Some(at) = memchr::memchr_iter(FLAGS_SEP, base).find(is_at) else { return base };
    let rest = &base[at + 3..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_field = digits > 0 && matches!(rest.get(digits), None | Some(&FLAGS_SEP));
    if is_field { &base[..at] } else { base }
}

/// Returns `true` if `key` is not that of the base name, nor of the base name before mbsync added
/// its field: another message had the base name first.
pub(super) fn is_twin(name: &[u8], key: u64) -> bool {
    let base = base(name);
    key != base_hash(base) && key != base_hash(stem(base))
}

/// Returns a mark by which a file is recognised under another name: a hash of its inode and size,
/// never 0.
pub(super) fn mark(metadata: &Metadata) -> u32 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&metadata.inode.to_le_bytes());
    bytes[8..].copy_from_slice(&metadata.size.to_le_bytes());
    (xxhash_rust::xxh3::xxh3_64(&bytes) as u32).max(1)
}

/// Returns the hash of a base name, which identifies the message.
pub(super) fn base_hash(base: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(base)
}

/// Returns the key of a message that shares its base name with another one, from which its inode
/// distinguishes it.
pub(super) fn twin_hash(base: &[u8], inode: u64) -> u64 {
    let mut bytes = Vec::with_capacity(base.len() + 9);
    bytes.extend_from_slice(base);
    bytes.push(0);
    bytes.extend_from_slice(&inode.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

/// Returns `true` if a directory entry can be a message: neither hidden nor unfit for
/// `dovecot-uidlist`.
pub(super) fn is_message(name: &[u8]) -> bool {
    !name.is_empty() && name[0] != b'.' && memchr::memchr2(b'\n', b'\r', name).is_none()
}

/// Meaning of the letters after `:2,`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Letters {
    /// The system flags.
    pub(super) flags: FlagSet,
    /// The keyword letters: bit 0 is `a`.
    pub(super) keywords: u32,
}

/// Returns the flag letters of a name; `None` if it has no `:2,`.
fn flag_letters(name: &[u8]) -> Option<&[u8]> {
    let at = memchr::memrchr(INFO_SEP, name)?;
    name[at + 1..].strip_prefix(b"2,")
}

/// Parses the flags of a name. Unknown letters are skipped.
pub(super) fn letters(name: &[u8]) -> Letters {
    let mut found = Letters::default();
    for &letter in flag_letters(name).unwrap_or_default() {
        match letter {
            FLAGS_SEP => break,
            b'a'..=b'z' => found.keywords |= 1 << (letter - b'a'),
            _ => {
                if let Some(flag) = flag_of(letter) {
                    found.flags = found.flags.with(flag);
                }
            }
        }
    }
    found
}

/// Returns the name with other flags. Unknown letters keep their place among the sorted ones, and a
/// second set of flags is kept as it is (Dovecot `maildir-filename-flags.c`).
pub(super) fn with_letters(name: &[u8], letters: Letters) -> Vec<u8> {
    let stem = memchr::memrchr(INFO_SEP, name).map_or(name, |at| &name[..at]);
    let old = flag_letters(name).unwrap_or_default();
    let end = memchr::memchr(FLAGS_SEP, old).unwrap_or(old.len());
    let unknown = old[..end].iter().filter(|letter| !is_known(**letter));
    let mut wanted = wanted_letters(letters).peekable();
    let mut out = Vec::with_capacity(name.len() + 3 + LETTERS);
    out.extend_from_slice(stem);
    out.extend_from_slice(b":2,");
    for &letter in unknown {
        while let Some(next) = wanted.next_if(|next| *next < letter) {
            out.push(next);
        }
        out.push(letter);
    }
    out.extend(wanted);
    out.extend_from_slice(&old[end..]);
    out
}

/// Returns the letters in ASCII order.
fn wanted_letters(letters: Letters) -> impl Iterator<Item = u8> {
    let system = b"DFRST"
        .iter()
        .copied()
        .filter(move |l| flag_of(*l).is_some_and(|flag| letters.flags.contains(flag)));
    let keywords = (b'a'..=b'z').filter(move |l| letters.keywords >> (l - b'a') & 1 == 1);
    system.chain(keywords)
}

fn flag_of(letter: u8) -> Option<Flag> {
    match letter {
        b'D' => Some(Flag::Draft),
        b'F' => Some(Flag::Flagged),
        b'R' => Some(Flag::Answered),
        b'S' => Some(Flag::Seen),
        b'T' => Some(Flag::Deleted),
        _ => None,
    }
}

fn is_known(letter: u8) -> bool {
    letter.is_ascii_lowercase() || flag_of(letter).is_some()
}

/// Returns the number of a `,S=` (size on disk) or `,W=` (size with CRLF) field.
pub(super) fn size_field(name: &[u8], kind: u8) -> Option<u64> {
    let at = memchr::memmem::find(name, &[FLAGS_SEP, kind, b'='])?;
    let digits = &name[at + 3..];
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !matches!(digits.get(len), None | Some(&INFO_SEP | &FLAGS_SEP)) || len == 0 {
        return None;
    }
    digits[..len].iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Sort key of new names before they get UIDs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalKey {
    /// The leading decimal seconds.
    pub(super) seconds: u64,
    /// The microseconds of an `M` in the unique part.
    pub(super) micros: Option<u32>,
    /// Offset of the end of the seconds.
    pub(super) rest: u8,
}

/// Parses the key of a name (Dovecot `maildir_filename_sort_cmp`).
pub(super) fn arrival_key(name: &[u8]) -> ArrivalKey {
    let digits = name.iter().take(32).take_while(|byte| byte.is_ascii_digit()).count();
    let seconds = decimal(&name[..digits]);
    ArrivalKey { seconds, micros: micros(&name[digits..]), rest: digits as u8 }
}

fn decimal(digits: &[u8]) -> u64 {
    digits.iter().fold(0_u64, |number, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    })
}

fn micros(rest: &[u8]) -> Option<u32> {
    let unique = rest.strip_prefix(b".")?;
    let end = memchr::memchr2(b'.', INFO_SEP, unique).unwrap_or(unique.len());
    let at = memchr::memchr(b'M', &unique[..end])? + 1;
    let digits = unique[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some(u32::try_from(decimal(&unique[at..at + digits])).unwrap_or(u32::MAX))
}

/// Compares what follows the seconds, up to the end of the base. Bytes are compared as signed
/// numbers and the `:` counts, as in Dovecot on x86.
pub(super) fn compare_rest(a: &[u8], b: &[u8]) -> Ordering {
    let ends = |byte| byte == 0 || byte == INFO_SEP;
    let mut at = 0;
    loop {
        let left = a.get(at).copied().unwrap_or(0);
        let right = b.get(at).copied().unwrap_or(0);
        if ends(left) && ends(right) {
            return Ordering::Equal;
        }
        if left != right || ends(left) {
            return left.cast_signed().cmp(&right.cast_signed());
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters_of(flags: &[Flag], keywords: u32) -> Letters {
        Letters { flags: flags.iter().copied().collect(), keywords }
    }

    #[test]
    fn flags_follow_the_last_colon() {
        let check = |name: &str, flags: &[Flag], keywords| {
            assert_eq!(letters(name.as_bytes()), letters_of(flags, keywords), "{name}");
        };
        check("1.M2P3.h", &[], 0);
        check("1.M2P3.h:2,", &[], 0);
        check("1.M2P3.h:2,DFRST", &Flag::ALL[..5], 0);
        check("1.M2P3.h:2,PSac", &[Flag::Seen], 0b101);
        check("1.M2P3.h:2,S,F", &[Flag::Seen], 0);
        check("1:x:2,S", &[Flag::Seen], 0);
        check("1:2,S:x", &[], 0);
        check("1:1,S", &[], 0);
        check("1:2", &[], 0);
    }

    #[test]
    fn flags_are_written_sorted_and_unknown_letters_stay() {
        let check = |name: &str, flags: &[Flag], keywords, expected: &str| {
            let renamed = with_letters(name.as_bytes(), letters_of(flags, keywords));
            assert_eq!(String::from_utf8_lossy(&renamed), expected, "{name}");
        };
        check("1.h", &[], 0, "1.h:2,");
        check("1.h", &[Flag::Seen, Flag::Flagged], 0b10, "1.h:2,FSb");
        check("1.h:2,PS", &[Flag::Deleted], 0, "1.h:2,PT");
        check("1.h:2,PS", &[Flag::Draft, Flag::Seen], 0, "1.h:2,DPS");
        check("1.h:2,SX,private", &[], 1, "1.h:2,Xa,private");
        check("1.h:1,old", &[Flag::Seen], 0, "1.h:2,S");
        check("1:x:2,F", &[Flag::Seen], 0, "1:x:2,S");
    }

    #[test]
    fn sizes_are_fields_of_their_own() {
        let check = |name: &str, kind, expected| {
            assert_eq!(size_field(name.as_bytes(), kind), expected, "{name}");
        };
        check("1.h,S=12,W=13:2,S", b'S', Some(12));
        check("1.h,S=12,W=13:2,S", b'W', Some(13));
        check("1.h,S=12", b'S', Some(12));
        check("1.h,S=12x", b'S', None);
        check("1.h,S=", b'S', None);
        check("1.h,S=99999999999999999999", b'S', None);
        check("1.h", b'S', None);
    }

    #[test]
    fn names_arrive_by_seconds_micros_and_bytes() {
        let key = |name: &str| {
            let key = arrival_key(name.as_bytes());
            (key.seconds, key.micros)
        };
        assert_eq!(key("12.M34P5.h"), (12, Some(34)));
        assert_eq!(key("12.R34.h"), (12, None));
        assert_eq!(key("12.P5.M34"), (12, None));
        assert_eq!(key("x"), (0, None));
        assert_eq!(key("99999999999999999999999.h").0, u64::MAX);
        assert_eq!(compare_rest(b".a", b".b"), Ordering::Less);
        assert_eq!(compare_rest(b".a:2,S", b".a"), Ordering::Equal);
        assert_eq!(compare_rest(b".a:2,S", b".a1"), Ordering::Greater);
        assert_eq!(compare_rest(b".\xff", b".a"), Ordering::Less);
    }

    #[test]
    fn a_base_ends_at_the_first_colon() {
        assert_eq!(base(b"1:x:2,S"), b"1");
        assert_eq!(base(b"1.h"), b"1.h");
        assert!(is_message(b"1.h") && !is_message(b".x") && !is_message(b"a\nb"));
    }
}
