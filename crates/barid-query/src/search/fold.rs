//! Texts in the form in which they are compared (RFC 5051), and search texts.

use barid_message::casemap_foreign;
use memchr::memmem::{Finder, FinderBuilder};

/// Appends a text in titlecase, decomposed ([`barid_message::casemap`]); runs of ASCII cost as much
/// as a copy.
pub(crate) fn fold_into(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while !rest.is_empty() {
        let plain = ascii_len(rest.as_bytes());
        push_upper(&rest.as_bytes()[..plain], out);
        rest = casemap_foreign(&rest[plain..], |part| out.extend_from_slice(part.as_bytes()));
    }
}

/// Appends ASCII in capitals.
pub(crate) fn push_upper(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(text);
    out[start..].make_ascii_uppercase();
}

/// Returns the number of leading ASCII bytes; checks many at a time.
fn ascii_len(bytes: &[u8]) -> usize {
    const STRIDE: usize = 64;
    let whole = bytes.chunks(STRIDE).take_while(|chunk| chunk.is_ascii()).count() * STRIDE;
    let from = whole.min(bytes.len());
    from + bytes[from..].iter().take_while(|byte| byte.is_ascii()).count()
}

/// A text to search for.
#[derive(Clone, Debug)]
pub(crate) struct Needle {
    finder: Finder<'static>,
    /// `true` if the text is ASCII; otherwise only texts beyond ASCII can contain it.
    pub(crate) is_ascii: bool,
    /// `true` if it has spaces or tabs, which folded header lines may break differently.
    pub(crate) has_blank: bool,
    /// `true` if it has line ends.
    pub(crate) has_break: bool,
}

impl Needle {
    pub(crate) fn new(text: &str) -> Self {
        let mut folded = Vec::with_capacity(text.len());
        // Texts are searched with LF as line end.
        fold_into(&text.replace("\r\n", "\n"), &mut folded);
        Self::of_folded(&folded)
    }

    /// Takes a text that is folded, with LF as line end.
    pub(crate) fn of_folded(folded: &[u8]) -> Self {
        Self {
            is_ascii: folded.is_ascii(),
            has_blank: folded.iter().any(|byte| matches!(byte, b' ' | b'\t')),
            has_break: folded.iter().any(|byte| matches!(byte, b'\r' | b'\n')),
            finder: FinderBuilder::new().build_forward(folded).into_owned(),
        }
    }

    /// Returns the text as it is compared.
    pub(crate) fn folded(&self) -> &[u8] {
        self.finder.needle()
    }

    /// Returns `true` if the text is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.finder.needle().is_empty()
    }

    /// Returns `true` if white space after a folded text could complete a match.
    pub(crate) fn may_end_after(&self, folded: &[u8]) -> bool {
        let needle = self.finder.needle();
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let blanks = needle.iter().rev().take_while(|byte| blank(byte)).count();
        blanks > 0 && folded.ends_with(&needle[..needle.len() - blanks])
    }

    /// Returns `true` if a folded text contains it.
    pub(crate) fn is_in(&self, folded: &[u8]) -> bool {
        self.find(folded).is_some()
    }

    /// Returns how often a folded text contains it, without overlaps.
    pub(crate) fn count(&self, folded: &[u8]) -> usize {
        self.finder.find_iter(folded).count()
    }

    /// Returns the offset at which a folded text first contains it.
    pub(crate) fn find(&self, folded: &[u8]) -> Option<usize> {
        self.finder.find(folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barid_message::casemap;

    fn check(text: &str) {
        let mut out = b"before".to_vec();
        fold_into(text, &mut out);
        assert_eq!(&out[6..], casemap(text).as_bytes(), "{text}");
    }

    #[test]
    fn folding_is_casemap() {
        check("");
        check("Hello, world");
        check("caf\u{e9} ol\u{e9}");
        check(&"a\u{df}\u{1f80}b\u{d55c}\u{1d6} ".repeat(40));
        check(&format!("{}\u{e9}{}", "x".repeat(63), "y".repeat(65)));
        check(&format!("{}\u{e9}", "x".repeat(64)));
    }

    #[test]
    fn needles() {
        let is_in = |needle: &str, text: &str| Needle::new(needle).is_in(casemap(text).as_bytes());
        assert!(is_in("WORLD", "Hello, world"));
        assert!(is_in("cafe", "CAF\u{c9}"));
        assert!(is_in("\u{e9}", "CAFE\u{301}"));
        assert!(!is_in("caf\u{e9}", "cafe"));
        assert!(is_in("a\r\nb", "a\nb"));
        assert!(is_in("", ""));
    }
}
