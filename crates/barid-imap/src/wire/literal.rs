//! The announcement of a literal at the end of a line.

/// An announced literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Literal {
    /// Length of the announcement in bytes.
    pub(super) announcement_len: usize,
    /// Length in bytes.
    pub(super) len: u64,
    /// `true` if the client waits for a continuation request.
    pub(super) is_sync: bool,
    /// `true` for a literal8.
    pub(super) is_binary: bool,
}

/// Error: the length of a non-synchronizing literal is no number, so that its end is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndlessLiteral;

/// Returns the literal that a line announces at its end: a line of a command, or what follows a
/// literal of it. A quoted string without end announces nothing (Dovecot reads it so, too).
pub(super) fn announced(line: &[u8]) -> Result<Option<Literal>, EndlessLiteral> {
    let Some(inner) = line.strip_suffix(b"}").filter(|inner| !ends_quoted(inner)) else {
        return Ok(None);
    };
    let (inner, is_sync) = match inner.strip_suffix(b"+") {
        Some(inner) => (inner, false),
        None => (inner, true),
    };
    let digits = inner.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (before, digits) = inner.split_at(inner.len() - digits);
    let Some(before) = before.strip_suffix(b"{").filter(|_| !digits.is_empty()) else {
        return Ok(None);
    };
    let len = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    let len = match len {
        Some(len) if len <= i64::MAX as u64 => len,
        _ if is_sync => u64::MAX,
        _ => return Err(EndlessLiteral),
    };
    let is_binary = before.ends_with(b"~");
    let announcement_len = line.len() - before.len() + usize::from(is_binary);
    Ok(Some(Literal { announcement_len, len, is_sync, is_binary }))
}

/// Returns `true` if a quoted string is open at the end of a line.
fn ends_quoted(line: &[u8]) -> bool {
    let mut is_quoted = false;
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted => drop(bytes.next()),
            _ => {}
        }
    }
    is_quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(usize, u64, bool, bool)>) {
        let found = announced(line.as_bytes()).unwrap();
        let found =
            found.map(|found| (found.announcement_len, found.len, found.is_sync, found.is_binary));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn announcements() {
        check("a LOGIN {5}", Some((3, 5, true, false)));
        check("a LOGIN {005+}", Some((6, 5, false, false)));
        check("a APPEND x ~{10}", Some((5, 10, true, true)));
        check("a \"\\\"\" {5}", Some((3, 5, true, false)));
        check("{18446744073709551616}", Some((22, u64::MAX, true, false)));
        for none in
            ["", "}", "{}", "{+}", "5}", "{5} ", "{5-}", "{-5}", "{5++}", "\"{5}\"", "a \"{5}"]
        {
            check(none, None);
        }
        assert_eq!(announced(b"{9223372036854775808+}"), Err(EndlessLiteral));
    }
}
