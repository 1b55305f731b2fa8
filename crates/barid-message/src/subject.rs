//! Base subjects (RFC 5256 §2.1).
//!
//! ```text
//! subj-refwd   = ("re" / ("fw" ["d"])) *WSP [subj-blob] ":"
//! subj-blob    = "[" *BLOBCHAR "]" *WSP        ; no "[" or "]" inside
//! subj-leader  = (*subj-blob subj-refwd) / WSP
//! subj-trailer = "(fwd)" / WSP
//! subj-fwd     = "[fwd:" subject "]"
//! ```
//!
//! Texts are brought into the form of i;unicode-casemap first, so that equal subjects are equal
//! bytes and sort as RFC 5256 requires.

use std::ops::Range;

use crate::casemap::casemap_into;
use crate::limits::SUBJECT_LEN_MAX;
use crate::peers::{c_client, dovecot};
use crate::{Profile, decode_words};

/// A subject without its reply and forward marks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BaseSubject {
    /// The base subject in the form of i;unicode-casemap (titlecased and decomposed UTF-8; other
    /// bytes only under [`Profile::CClient`]).
    pub text: Vec<u8>,
    /// `true` if a mark of a reply or a forward was removed.
    pub is_reply_or_forward: bool,
}

/// Buffers that [`base_subject_into`] uses again and again.
#[derive(Clone, Debug, Default)]
pub struct SubjectScratch {
    text: Vec<u8>,
}

/// Returns the base subject of a raw `Subject` body (RFC 5256 §2.1). Only the first
/// [`SUBJECT_LEN_MAX`] bytes count.
pub fn base_subject(raw: &[u8], profile: Profile) -> BaseSubject {
    let mut scratch = SubjectScratch::default();
    let (text, is_reply_or_forward) = base_subject_into(raw, profile, &mut scratch);
    BaseSubject { text: text.to_vec(), is_reply_or_forward }
}

/// Computes [`base_subject`] without an allocation for ASCII subjects after the scratch has grown.
///
/// Returns the text, and `true` if the subject is a reply or a forward. O(length).
pub fn base_subject_into<'s>(
    raw: &[u8],
    profile: Profile,
    scratch: &'s mut SubjectScratch,
) -> (&'s [u8], bool) {
    let raw = &raw[..raw.len().min(SUBJECT_LEN_MAX)];
    let text = &mut scratch.text;
    text.clear();
    if profile == Profile::CClient {
        let (base, is_reply_or_forward) = c_client::base_subject(raw, text);
        return (&scratch.text[base], is_reply_or_forward);
    }
    let is_plain = profile != Profile::Dovecot || !dovecot::packs_oddly(raw);
    if !is_plain || !canonical_ascii(raw, text) {
        text.clear();
        match profile {
            Profile::Dovecot => {
                let mut unpacked = Vec::new();
                dovecot::casemapped(raw, &mut unpacked);
                dovecot::pack_white_space(&unpacked, text);
            }
            _ => canonical(raw, text),
        }
    }
    let (base, is_reply_or_forward) = strip(text);
    (&scratch.text[base], is_reply_or_forward)
}

/// Upper-cases ASCII and packs its white space; `false` if the text needs more than that.
fn canonical_ascii(raw: &[u8], text: &mut Vec<u8>) -> bool {
    text.reserve(raw.len());
    let (mut last, mut seen) = (0, 0);
    for &byte in raw {
        seen |= byte;
        if last == b'=' && byte == b'?' {
            return false;
        }
        let blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let byte = if blank { b' ' } else { byte.to_ascii_uppercase() };
        if !(blank && last == b' ') {
            text.push(byte);
        }
        last = byte;
    }
    seen < 0x80 && !text.contains(&0)
}

/// Decodes, maps to i;unicode-casemap and packs white space.
fn canonical(raw: &[u8], text: &mut Vec<u8>) {
    let mut key = String::new();
    casemap_into(&decode_words(raw), &mut key);
    pack_white_space(key.as_bytes(), text);
}

/// Appends `from` with every run of spaces, tabs and line ends as one space.
fn pack_white_space(from: &[u8], text: &mut Vec<u8>) {
    for &byte in from {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' if text.last() == Some(&b' ') => {}
            b' ' | b'\t' | b'\r' | b'\n' => text.push(b' '),
            _ => text.push(byte),
        }
    }
}

/// Applies steps 2 to 6 of RFC 5256 §2.1 to a canonical text. Returns the rest, and `true` if it
/// had a mark.
fn strip(text: &[u8]) -> (Range<usize>, bool) {
    let (mut start, mut end) = (0, text.len());
    let mut marked = false;
    loop {
        strip_trailers(text, start, &mut end, &mut marked);
        while strip_leader(&text[..end], &mut start, &mut marked) {}
        let rest = &text[start..end];
        if !(rest.starts_with(b"[FWD:") && rest.ends_with(b"]")) {
            return (start..end, marked);
        }
        (start, end, marked) = (start + 5, end - 1, true);
    }
}

/// Applies step 2.
fn strip_trailers(text: &[u8], start: usize, end: &mut usize, marked: &mut bool) {
    loop {
        let rest = &text[start..*end];
        if rest.ends_with(b" ") {
            *end -= 1;
        } else if rest.ends_with(b"(FWD)") {
            *end -= 5;
            *marked = true;
        } else {
            return;
        }
    }
}

/// Applies steps 3 and 4 once; `false` if nothing was removed.
///
/// All blobs are skipped at once: if no mark follows the last of them, none follows any of them, so
/// that the time stays linear for any number of blobs.
fn strip_leader(text: &[u8], start: &mut usize, marked: &mut bool) -> bool {
    let begin = *start;
    if text.get(begin) == Some(&b' ') {
        *start += 1;
    }
    let (mut at, mut last_blob) = (*start, None);
    while let Some(after) = blob(text, at) {
        last_blob = Some(at);
        at = after;
    }
    if let Some(after) = mark(text, at) {
        *start = after;
        *marked = true;
    } else if at < text.len() {
        *start = at;
    } else if let Some(last_blob) = last_blob {
        // The last blob is all that is left, so it stays.
        *start = last_blob;
    }
    *start > begin
}

/// Returns the offset after the blob that starts at `at`, its space included.
fn blob(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'[') {
        return None;
    }
    let inside = memchr::memchr2(b'[', b']', &text[at + 1..])?;
    let close = at + 1 + inside;
    (text[close] == b']').then(|| skip_space(text, close + 1))
}

/// Returns the offset after the `subj-refwd` that starts at `at`.
fn mark(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    let word = [&b"RE"[..], b"FWD", b"FW"].into_iter().find(|word| rest.starts_with(word))?;
    let at = skip_space(text, at + word.len());
    let at = if text.get(at) == Some(&b'[') { blob(text, at)? } else { at };
    (text.get(at) == Some(&b':')).then_some(at + 1)
}

fn skip_space(text: &[u8], at: usize) -> usize {
    at + usize::from(text.get(at) == Some(&b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, base: &str, marked: bool) {
        for profile in [Profile::Rfc, Profile::Dovecot] {
            let found = base_subject(raw.as_bytes(), profile);
            let text = String::from_utf8_lossy(&found.text).into_owned();
            assert_eq!((&*text, found.is_reply_or_forward), (base, marked), "{raw:?} {profile:?}");
        }
    }

    #[test]
    fn marks_are_taken_off() {
        check("foo", "FOO", false);
        check("Re: foo", "FOO", true);
        check("RE : foo", "FOO", true);
        check("fwd:foo", "FOO", true);
        check("FW: Fwd: re: foo", "FOO", true);
        check("Re: [x] Re[2]: foo", "FOO", true);
        check("[a] [b] Re: foo", "FOO", true);
        check("[PATCH] foo", "FOO", false);
        check("[PATCH]", "[PATCH]", false);
        check("[a] [PATCH]", "[PATCH]", false);
        check("[a] Re: [PATCH]", "[PATCH]", true);
        check("Re:", "", true);
        check("Re foo: x", "RE FOO: X", false);
        check("AW: x", "AW: X", false);
        check("Refoo: x", "REFOO: X", false);
        check("Fwd[ x", "FWD[ X", false);
        check("Re[2]: x", "X", true);
        check("Re[[2]: x", "RE[[2]: X", false);
    }

    #[test]
    fn trailers_and_forwards_are_taken_off() {
        check("foo (fwd)", "FOO", true);
        check("foo (fwd) (FWD)  ", "FOO", true);
        check("(fwd)", "", true);
        check("[Fwd: foo]", "FOO", true);
        check("[Fwd: Re: [x] foo (fwd)]", "FOO", true);
        check("[Fwd: Re: foo (fwd)]", "FOO", true);
        check("[Fwd: [Fwd: foo]]", "FOO", true);
        check("[Fwd: foo] bar", "BAR", false);
        check("[fwd:]", "", true);
        check("", "", false);
    }

    #[test]
    fn white_space_is_packed() {
        check("  a \t b\r\n c ", "A B C", false);
        check("Re:\r\n\tfoo", "FOO", true);
        check("=?utf-8?q?Re:_caf=C3=A9?=", "CAFE\u{301}", true);
        check("=?utf-8?q?R?= =?utf-8?q?e=3A?= x", "X", true);
        check("caf\u{e9}", "CAFE\u{301}", false);
    }

    #[test]
    fn dovecot_leaves_two_spaces_where_a_space_stands_before_the_first_fold() {
        let check = |raw: &str, base: &str, dovecots: &str| {
            assert_eq!(base_subject(raw.as_bytes(), Profile::Rfc).text, base.as_bytes());
            assert_eq!(base_subject(raw.as_bytes(), Profile::Dovecot).text, dovecots.as_bytes());
        };
        check("a \n b", "A B", "A  B");
        check("a \r\n b \r\n c", "A B C", "A  B C");
        check("a\n b \n c", "A B C", "A B C");
        check("a  b \n c", "A B C", "A B C");
        check("=?utf-8?q?a?= b \n =?utf-8?q?c?=", "A B C", "A B  C");
    }

    #[test]
    fn hostile_subjects_take_linear_time() {
        for unit in
            ["[", "[]", "[a] ", "re:", "[fwd:", "(fwd)", " ", "re[", "[a]re:", "=?", "\u{e9}"]
        {
            let text = unit.repeat(1 << 20);
            for profile in [Profile::Rfc, Profile::Dovecot, Profile::CClient] {
                assert!(base_subject(text.as_bytes(), profile).text.len() <= 4 * SUBJECT_LEN_MAX);
            }
        }
        let nested = "[fwd:".repeat(9000) + "x" + &"]".repeat(9000);
        assert_eq!(base_subject(nested.as_bytes(), Profile::Rfc).text, b"X");
    }
}
