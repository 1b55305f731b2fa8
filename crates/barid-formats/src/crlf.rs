//! Texts whose lines all end with CRLF.

/// Appends a text, with CRLF where it has LF alone; [`barid_message::crlf_size`] tells its length.
pub(crate) fn push_crlf(text: &[u8], out: &mut Vec<u8>) {
    if barid_message::crlf_size(text) == text.len() as u64 {
        return out.extend_from_slice(text);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(barid_message::crlf_size(text.as_bytes()), expected.len() as u64);
        }
    }
}
