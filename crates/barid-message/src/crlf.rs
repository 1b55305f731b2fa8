//! Texts with CRLF at the end of their lines.

/// Returns the length of a text in which every LF without a CR before it counts as two bytes.
pub fn crlf_size(text: &[u8]) -> u64 {
    text.len() as u64 + bare_lfs(text)
}

/// Returns `true` if every LF follows a CR.
pub fn has_only_crlf(text: &[u8]) -> bool {
    bare_lfs(text) == 0
}

/// Appends a text with every LF without a CR before it written as CRLF: [`crlf_size`] bytes.
pub fn push_crlf(text: &[u8], out: &mut Vec<u8>) {
    let len = crlf_size(text) as usize;
    out.reserve(len);
    match len == text.len() {
        true => out.extend_from_slice(text),
        false => push_bare(text, out),
    }
}

fn push_bare(text: &[u8], out: &mut Vec<u8>) {
    let mut from = 0;
    for at in memchr::memchr_iter(b'\n', text) {
        if at == 0 || text[at - 1] != b'\r' {
            out.extend_from_slice(&text[from..at]);
            out.push(b'\r');
            from = at;
        }
    }
    out.extend_from_slice(&text[from..]);
}

/// A converter to CRLF, as by [`push_crlf`], for a text that comes in pieces.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrlfPieces {
    ends_with_cr: bool,
}

impl CrlfPieces {
    /// Appends the next piece.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let (ended, rest) = self.split(piece);
        out.extend_from_slice(ended);
        push_crlf(rest, out);
    }

    /// Returns the bytes that [`CrlfPieces::push`] would append.
    pub fn size(&mut self, piece: &[u8]) -> u64 {
        let (ended, rest) = self.split(piece);
        ended.len() as u64 + crlf_size(rest)
    }

    /// Cuts off an LF that ends the line of the piece before.
    fn split<'p>(&mut self, piece: &'p [u8]) -> (&'p [u8], &'p [u8]) {
        let is_ended = self.ends_with_cr && piece.first() == Some(&b'\n');
        if let Some(last) = piece.last() {
            self.ends_with_cr = *last == b'\r';
        }
        piece.split_at(usize::from(is_ended))
    }
}

/// Returns the number of LFs without a CR before them. It has no branch for each line, so that the
/// compiler compares many bytes at once.
fn bare_lfs(text: &[u8]) -> u64 {
    /// Chunk length whose count fits into a byte.
    const STRETCH: usize = 240;
    let Some(after) = text.get(1..) else { return 0 };
    let mut count = u64::from(text[0] == b'\n');
    for (before, at) in text.chunks(STRETCH).zip(after.chunks(STRETCH)) {
        let pairs = before.iter().zip(at);
        let bare = pairs.map(|(before, at)| u8::from(*at == b'\n') & u8::from(*before != b'\r'));
        count += u64::from(bare.sum::<u8>());
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_lfs_are_counted() {
        let mut rng = fastrand::Rng::with_seed(7);
        for len in (0..600).chain([1000, 4099]) {
            let text: Vec<u8> = (0..len).map(|_| *rng.choice(b"\r\n\na").unwrap()).collect();
            let is_bare = |at: &usize| text[*at] == b'\n' && (*at == 0 || text[at - 1] != b'\r');
            let bare = (0..len).filter(is_bare).count();
            assert_eq!(crlf_size(&text), (len + bare) as u64, "{text:?}");
            assert_eq!(has_only_crlf(&text), bare == 0, "{text:?}");
        }
        assert_eq!(crlf_size(&[b'\n'; 5000]), 10_000);
    }

    #[test]
    fn pieces_are_as_the_whole() {
        let mut rng = fastrand::Rng::with_seed(8);
        for _ in 0..2000 {
            let text: Vec<u8> =
                (0..rng.usize(..20)).map(|_| *rng.choice(b"\r\n\na").unwrap()).collect();
            let (mut whole, mut out, mut size) = (Vec::new(), Vec::new(), 0);
            push_crlf(&text, &mut whole);
            let (mut pieces, mut sizes) = (CrlfPieces::default(), CrlfPieces::default());
            let mut rest = &text[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rng.usize(..=rest.len()));
                pieces.push(piece, &mut out);
                size += sizes.size(piece);
                rest = after;
            }
            assert_eq!((out, size), (whole.clone(), whole.len() as u64), "{text:?}");
        }
    }

    #[test]
    fn lines_get_crlf() {
        for (text, expected) in [
            ("", ""),
            ("a", "a"),
            ("a\nb\n", "a\r\nb\r\n"),
            ("\n\n", "\r\n\r\n"),
            ("a\r\nb\n\r\n", "a\r\nb\r\n\r\n"),
            ("a\rb\n", "a\rb\r\n"),
            ("\r\r\n\n\r", "\r\r\n\r\n\r"),
        ] {
            let mut out = b"x\r".to_vec();
            push_crlf(text.as_bytes(), &mut out);
            assert_eq!(&out[2..], expected.as_bytes(), "{text:?}");
            assert_eq!(crlf_size(text.as_bytes()), expected.len() as u64);
        }
    }
}
