//! Message ids in `Message-ID`, `In-Reply-To` and `References` (RFC 5322 §3.6.4, RFC 5256 §3).
//!
//! ```text
//! msg-id = [CFWS] "<" id-left "@" id-right ">" [CFWS]
//! ```
//!
//! Ids are compared in normal form: without the angle brackets, the quotes of a quoted local part
//! and white space.

use std::borrow::Cow;

use memchr::memchr;

use crate::Profile;
use crate::lexer::Lexer;
use crate::limits::{BROKEN_IDS_MAX, MESSAGE_ID_LEN_MAX, MESSAGE_IDS_MAX, REFERENCES_LEN_MAX};
use crate::peers::c_client_ids;

/// Returns the first valid message id of a raw field body, in normal form.
///
/// Borrows unless something has to be removed from the id.
pub fn message_id(raw: &[u8], profile: Profile) -> Option<Cow<'_, [u8]>> {
    let raw = &raw[..raw.len().min(REFERENCES_LEN_MAX)];
    match profile {
        Profile::Rfc => Ids::new(raw, Dialect::Rfc).next(),
        Profile::Dovecot => Ids::new(raw, Dialect::Dovecot).next(),
        Profile::CClient => c_client_ids::ids(raw).next().map(Cow::Owned),
    }
}

/// Calls `visit` with every valid message id of a raw field body, in normal form, in order.
///
/// From more than [`MESSAGE_IDS_MAX`] ids, or from a body longer than [`REFERENCES_LEN_MAX`], the
/// last ones are visited, since the nearest ancestors matter most. Returns the number of ids
/// skipped at the start (at least 1 if the body was cut).
pub fn message_ids(raw: &[u8], profile: Profile, visit: &mut dyn FnMut(&[u8])) -> usize {
    let cut = raw.len().saturating_sub(REFERENCES_LEN_MAX);
    let raw = &raw[cut..];
    if profile == Profile::CClient {
        c_client_ids::ids(raw).take(MESSAGE_IDS_MAX).for_each(|id| visit(&id));
        return usize::from(cut > 0);
    }
    let dialect = if profile == Profile::Dovecot { Dialect::Dovecot } else { Dialect::Rfc };
    // `<@>` and a separator take four bytes, so that shorter bodies need no counting.
    let many = raw.len() / 4 > MESSAGE_IDS_MAX;
    let count = if many { Ids::new(raw, dialect).count() } else { 0 };
    let skipped = count.saturating_sub(MESSAGE_IDS_MAX);
    Ids::new(raw, dialect).skip(skipped).for_each(|id| visit(&id));
    skipped + usize::from(cut > 0)
}

/// The rules for ids, which differ between RFC 5322 and Dovecot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// A `<` starts a new id, and neither side of the `@` is empty.
    Rfc,
    /// Everything up to a `>` is an id if it contains an `@`; if the id needs unquoting, the text
    /// read by the failed attempts just before becomes part of it (`message_id_get_next` reuses its
    /// buffer).
    Dovecot,
}

/// The bytes that end the quick check.
static RFC_STOPS: [bool; 256] = stops(b">\"(<[");
static DOVECOT_STOPS: [bool; 256] = stops(b">\"(\0");

const fn stops(bytes: &[u8]) -> [bool; 256] {
    let mut stops = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        stops[bytes[at] as usize] = true;
        at += 1;
    }
    stops
}

struct Ids<'a> {
    raw: &'a [u8],
    at: usize,
    dialect: Dialect,
    unquoted: Vec<u8>,
    /// The first byte at or after `at` that ends the quick check; cached so that each is searched
    /// for once.
    stop: usize,
    /// Number of unquoting attempts that may still fail.
    attempts: usize,
}

impl<'a> Ids<'a> {
    fn new(raw: &'a [u8], dialect: Dialect) -> Self {
        Self { raw, at: 0, dialect, unquoted: Vec::new(), stop: 0, attempts: BROKEN_IDS_MAX }
    }

    /// Returns the offset of the first `>`, `"` or `(` at or after `from` (for the RFC also `[`
    /// and `<`).
    fn find_stop(&mut self, from: usize) -> Option<usize> {
        if self.stop < from {
            let stops = match self.dialect {
                Dialect::Rfc => &RFC_STOPS,
                Dialect::Dovecot => &DOVECOT_STOPS,
            };
            let ends = |byte: &u8| stops[usize::from(*byte)];
            self.stop = from + self.raw[from..].iter().position(ends)?;
        }
        Some(self.stop)
    }

    /// Reads `(quoted-string / dot-atom) "@" (dot-atom / domain-literal) ">"`
    fn unquote(&mut self, start: usize) -> Option<usize> {
        let end = self.raw.len().min(start + MESSAGE_ID_LEN_MAX);
        if self.dialect == Dialect::Rfc {
            self.unquoted.clear();
        }
        let mut lexer = Lexer::new(&self.raw[start..end]);
        let out = &mut self.unquoted;
        lexer.skip_cfws().ok()?;
        match lexer.peek() {
            Some(b'"') => lexer.quoted_string(out).ok()?,
            _ => lexer.dot_atom(out).ok()?,
        }
        if !lexer.eat(b'@') {
            return None;
        }
        out.push(b'@');
        match self.dialect {
            Dialect::Rfc => lexer.domain(out).ok()?,
            Dialect::Dovecot => {
                lexer.skip_cfws().ok()?;
                lexer.dot_atom(out).ok()?;
            }
        }
        lexer.eat(b'>').then(|| start + lexer.position())
    }
}

impl<'a> Iterator for Ids<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        self.unquoted.clear();
        loop {
            let start = self.at + memchr(b'<', self.raw.get(self.at..)?)? + 1;
            self.at = start;
            let stop = self.find_stop(start)?;
            match self.raw[stop] {
                b'>' => {
                    self.at = stop + 1;
                    let id = &self.raw[start..stop];
                    if is_plausible(id, self.dialect) {
                        return Some(without_blanks(id));
                    }
                }
                b'<' => self.at = stop,
                0 => return None,
                _ => {
                    if let Some(after) = self.unquote(start) {
                        self.at = after;
                        return Some(Cow::Owned(self.unquoted.clone()));
                    }
                    self.attempts = self.attempts.checked_sub(1)?;
                }
            }
        }
    }
}

fn is_plausible(id: &[u8], dialect: Dialect) -> bool {
    match dialect {
        Dialect::Dovecot => id.contains(&b'@'),
        Dialect::Rfc => {
            let sides = memchr(b'@', id).map(|at| (at, id.len() - at - 1));
            id.len() <= MESSAGE_ID_LEN_MAX && sides.is_some_and(|(left, right)| left * right > 0)
        }
    }
}

fn without_blanks(id: &[u8]) -> Cow<'_, [u8]> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    // No early end, so that the compiler handles many bytes at a time.
    if id.iter().fold(false, |found, byte| found | blank(byte)) {
        return Cow::Owned(id.iter().copied().filter(|byte| !blank(byte)).collect());
    }
    Cow::Borrowed(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, profile: Profile, expected: &[&str]) {
        let mut found = Vec::new();
        let left_out = message_ids(raw.as_bytes(), profile, &mut |id| {
            found.push(String::from_utf8_lossy(id).into_owned());
        });
        assert_eq!(
            (found.as_slice(), left_out),
            (&*expected.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>(), 0),
            "{raw:?} {profile:?}"
        );
        let first = message_id(raw.as_bytes(), profile);
        let first = first.map(|id| String::from_utf8_lossy(&id).into_owned());
        assert_eq!(first.as_deref(), expected.first().copied());
    }

    #[test]
    fn ids_are_normalised() {
        for profile in [Profile::Rfc, Profile::Dovecot] {
            check("<a@b>", profile, &["a@b"]);
            check("x <a@b> y <c@d>\r\n\t<e@f>", profile, &["a@b", "c@d", "e@f"]);
            check("<\"a\"@b>", profile, &["a@b"]);
            check("<a\r\n b@c>", profile, &["ab@c"]);
            check("<a@b (comment)>", profile, &["a@b"]);
            check("<ab> <c@d>", profile, &["c@d"]);
            check("a@b", profile, &[]);
            check("<a@b", profile, &[]);
            check("", profile, &[]);
        }
    }

    #[test]
    fn domain_literals_and_strays() {
        check("<a@[1.2.3.4]>", Profile::Rfc, &["a@[1.2.3.4]"]);
        check("<a@[1.2.3.4]>", Profile::Dovecot, &["a@[1.2.3.4]"]);
        check("<\"a\"@[1.2.3.4]>", Profile::Rfc, &["a@[1.2.3.4]"]);
        check("<\"a\"@[1.2.3.4]>", Profile::Dovecot, &[]);
        check("<a <b@c>", Profile::Rfc, &["b@c"]);
        check("<a <b@c>", Profile::Dovecot, &["a<b@c"]);
        check("<@>", Profile::Rfc, &[]);
        check("<@>", Profile::Dovecot, &["@"]);
    }

    #[test]
    fn dovecot_keeps_what_a_failed_attempt_has_read() {
        check("<\"a\"@[x]> <\"b\"@c>", Profile::Dovecot, &["a@b@c"]);
        check("<\"a\"@[x]> <\"b\"@c>", Profile::Rfc, &["a@[x]", "b@c"]);
    }

    #[test]
    fn of_too_many_ids_the_last_are_kept() {
        let raw: String = (0..MESSAGE_IDS_MAX + 7).map(|n| format!("<{n}@x>\n ")).collect();
        let mut found = Vec::new();
        let left_out = message_ids(raw.as_bytes(), Profile::Rfc, &mut |id| found.push(id.to_vec()));
        assert_eq!((left_out, found.len()), (7, MESSAGE_IDS_MAX));
        assert_eq!(found[0], b"7@x");
    }

    #[test]
    fn hostile_fields_take_bounded_time() {
        for unit in ["<", "<a(", "<\"", "<[", "<a@", "<a@b>", "<<<(", "<\"\\", "a ", "<a@b(", "("] {
            let raw = unit.repeat(400_000);
            for profile in [Profile::Rfc, Profile::Dovecot, Profile::CClient] {
                let mut count = 0;
                message_ids(raw.as_bytes(), profile, &mut |_| count += 1);
                assert!(count <= MESSAGE_IDS_MAX.max(1), "{unit}");
            }
        }
    }
}
