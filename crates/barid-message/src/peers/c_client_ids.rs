//! c-client 2007f: message ids (`mail_thread_parse_msgid` over `rfc822_parse_routeaddr`).
//!
//! An id is anything that can be read as an address in angle brackets, after an optional phrase:
//! its end may be missing, its host may be missing (then a filler replaces it), and the text after
//! it in a list must look like the next id or reading stops. The phrase of an id that is written in
//! ISO-2022-JP escapes is not recognised here.

/// The host of an id without one.
const MISSING_HOST: &[u8] = b".MISSING-HOST-NAME.";

/// The host of an id whose host cannot be read.
const BAD_HOST: &[u8] = b".SYNTAX-ERROR.";

/// Reads ids up to the first that cannot be read.
pub(crate) fn ids(raw: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let raw = crate::unfold(raw).into_owned();
    let end = raw.iter().position(|byte| *byte == 0).unwrap_or(raw.len());
    let mut reader = Reader { text: raw, end };
    let mut next = Some(0);
    std::iter::from_fn(move || {
        let (id, rest) = reader.id(next.take()?)?;
        next = rest;
        Some(id)
    })
}

/// The text, which an unfinished comment truncates.
struct Reader {
    text: Vec<u8>,
    end: usize,
}

impl Reader {
    fn byte(&self, at: usize) -> u8 {
        if at < self.end { self.text[at] } else { 0 }
    }

    /// Reads an id at `at`. Returns it and the offset at which to continue, if any text is left.
    fn id(&mut self, at: usize) -> Option<(Vec<u8>, Option<usize>)> {
        let at = self.skip_white_space(at);
        let open = if self.byte(at) == b'<' { at } else { self.phrase(at)? };
        let open = self.skip_white_space(open);
        if self.byte(open) != b'<' {
            return None;
        }
        let start = self.route(open + 1);
        let (id, rest) = self.addr_spec(start)?;
        let rest = match rest {
            Some(rest) if self.byte(rest) == b'>' => {
                let rest = self.skip_white_space(rest + 1);
                (rest < self.end).then_some(rest)
            }
            rest => rest,
        };
        Some((id, rest))
    }

    /// Skips an `@domain,...:` before an address.
    fn route(&mut self, start: usize) -> usize {
        let mut at = self.skip_white_space(start);
        let mut found = false;
        while self.byte(at) == b'@' {
            let Some((_, after)) = self.domain(at + 1).0 else { break };
            found = true;
            at = self.skip_white_space(after);
            if self.byte(at) != b',' {
                break;
            }
            at = self.skip_white_space(at + 1);
        }
        if found && self.byte(at) == b':' { at + 1 } else { start }
    }

    /// Reads `local-part ["@" domain] [comment]` as one text. Returns it and the offset at which to
    /// continue.
    fn addr_spec(&mut self, at: usize) -> Option<(Vec<u8>, Option<usize>)> {
        let at = self.skip_white_space(at);
        let mut end = self.word(at)?;
        let mut id = unquote(&self.text[at..end]);
        let mut dot = self.skip_white_space(end);
        while self.byte(dot) == b'.' {
            let start = self.skip_white_space(dot + 1);
            let Some(after) = self.word(start) else { break };
            id.push(b'.');
            id.extend(unquote(&self.text[start..after]));
            end = after;
            dot = self.skip_white_space(end);
        }
        let mut at_sign = self.skip_white_space(end);
        if self.is_spelled_at(at_sign) {
            at_sign += 1;
            self.text[at_sign] = b'@';
        }
        id.push(b'@');
        let mut rest = Some(end);
        if self.byte(at_sign) == b'@' {
            let (domain, stop) = self.domain(at_sign + 1);
            rest = stop;
            match domain {
                Some((host, _)) => id.extend(host),
                None => id.extend_from_slice(BAD_HOST),
            }
        } else {
            id.extend_from_slice(MISSING_HOST);
        }
        let rest = rest.map(|rest| self.skip_white_space(rest));
        Some((id, rest.filter(|rest| *rest < self.end)))
    }

    /// Returns `true` at `at`, which RFC 733 writes for `@`.
    fn is_spelled_at(&self, at: usize) -> bool {
        self.byte(at).eq_ignore_ascii_case(&b'a')
            && self.byte(at + 1).eq_ignore_ascii_case(&b't')
            && matches!(self.byte(at + 2), b' ' | b'\t' | b'\r' | b'\n' | b'(')
    }

    /// Reads a domain. Returns it with the offset of its end, and the offset at which to continue,
    /// even without a domain.
    fn domain(&mut self, at: usize) -> (Option<(Vec<u8>, usize)>, Option<usize>) {
        let (first, mut stop) = self.domain_part(at);
        let Some((mut host, mut end)) = first else { return (None, stop) };
        loop {
            let dot = self.skip_white_space(end);
            if self.byte(dot) != b'.' {
                return (Some((host, end)), stop);
            }
            let start = self.skip_white_space(dot + 1);
            let (Some((part, after)), _) = self.domain_part(start) else {
                return (Some((host, end)), stop);
            };
            host.push(b'.');
            host.extend(unquote(&part));
            (end, stop) = (after, Some(after));
        }
    }

    /// Reads one label or one literal.
    fn domain_part(&mut self, at: usize) -> (Option<(Vec<u8>, usize)>, Option<usize>) {
        let at = self.skip_white_space(at);
        if self.byte(at) == b'[' {
            let inside = self.skip_white_space(at + 1);
            let Some(close) = self.literal_end(inside) else { return (None, None) };
            if self.byte(close) != b']' {
                return (None, Some(close));
            }
            let literal = self.text[at..=close].to_vec();
            return (Some((literal, close + 1)), Some(close + 1));
        }
        match self.word(at) {
            Some(end) => (Some((unquote(&self.text[at..end]), end)), Some(end)),
            None => (None, Some(at)),
        }
    }

    /// Returns the end of the domain literal whose inside starts at `start`; `None` if it is empty.
    fn literal_end(&self, start: usize) -> Option<usize> {
        let mut at = start;
        while at < self.end {
            match self.text[at] {
                b'\\' if at + 1 < self.end => at += 2,
                b']' | b'\\' => break,
                _ => at += 1,
            }
        }
        (at > start).then_some(at.min(self.end))
    }

    /// Skips words. Returns the end of the last one.
    fn phrase(&mut self, at: usize) -> Option<usize> {
        let mut end = self.word(at)?;
        while end < self.end {
            let next = self.skip_white_space(end);
            match self.word(next) {
                Some(after) => end = after,
                None => break,
            }
        }
        Some(end)
    }

    /// Skips a word of ordinary characters, quoted strings and quoted characters. Returns its end.
    fn word(&mut self, at: usize) -> Option<usize> {
        let start = self.skip_white_space(at);
        if start >= self.end {
            return None;
        }
        let mut at = start;
        while at < self.end {
            match self.text[at] {
                b'"' => at = self.quoted_end(at + 1)?,
                b'\\' if at + 1 < self.end => at += 2,
                byte if is_special(byte) => return (at > start).then_some(at),
                _ => at += 1,
            }
        }
        Some(at)
    }

    /// Returns the end of a quoted string whose inside starts at `at`; `None` if it is
    /// unterminated.
    fn quoted_end(&self, mut at: usize) -> Option<usize> {
        while at < self.end {
            match self.text[at] {
                b'"' => return Some(at + 1),
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        None
    }

    /// Skips white space and comments. An unterminated comment truncates the text at its innermost
    /// open parenthesis.
    fn skip_white_space(&mut self, mut at: usize) -> usize {
        loop {
            match self.byte(at) {
                b' ' | b'\t' | b'\r' | b'\n' => at += 1,
                b'(' => match self.comment_end(at) {
                    Ok(after) => at = after,
                    Err(innermost) => {
                        self.end = innermost;
                        return at;
                    }
                },
                _ => return at,
            }
        }
    }

    /// Returns the end of the comment at `at`, or as an error the start of the innermost comment
    /// that is still open.
    fn comment_end(&self, at: usize) -> Result<usize, usize> {
        let mut open = vec![at];
        let mut at = at + 1;
        while at < self.end {
            match self.text[at] {
                b'(' => open.push(at),
                b')' => {
                    open.pop();
                    if open.is_empty() {
                        return Ok(at + 1);
                    }
                }
                b'\\' => at += 1,
                _ => {}
            }
            at += 1;
        }
        Err(open.pop().unwrap_or(at))
    }
}

fn is_special(byte: u8) -> bool {
    byte <= b' ' || byte == 127 || b"()<>@,;:\\\"[]".contains(&byte)
}

/// Removes quotes and backslashes.
fn unquote(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {}
            b'\\' => out.extend(bytes.next()),
            _ => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::{Profile, message_ids};

    fn check(raw: &str, expected: &[&str]) {
        let mut found = Vec::new();
        message_ids(raw.as_bytes(), Profile::CClient, &mut |id| {
            found.push(String::from_utf8_lossy(id).into_owned());
        });
        assert_eq!(found, expected, "{raw:?}");
    }

    #[test]
    fn as_the_rfc_says() {
        check("<a@b> <c@d>\r\n\t<e@f>", &["a@b", "c@d", "e@f"]);
        check("<\"a\"@b>", &["a@b"]);
        check("<a@[1.2.3.4]>", &["a@[1.2.3.4]"]);
        check("phrase <a@b> (c)", &["a@b"]);
        check("", &[]);
    }

    #[test]
    fn where_it_leaves_the_rfc() {
        check("<a@b>,<c@d>", &["a@b"]);
        check("a@b <c@d>", &[]);
        check("<a>", &["a@.MISSING-HOST-NAME."]);
        check("<a@>", &["a@.SYNTAX-ERROR."]);
        check("<a b@c>", &["a@.MISSING-HOST-NAME."]);
        check("<a at b>", &["a@b"]);
        check("<a@b", &["a@b"]);
    }
}
