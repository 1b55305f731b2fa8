//! Answers of the measured programs in a comparable form.

use std::io::BufRead;

use anyhow::{Context as _, Result, bail, ensure};
use xxhash_rust::xxh3::xxh3_64;

use crate::limits::{RANGE_LEN_MAX, SEARCHED_ALIKE_MIN, THREADS_ALIKE_MIN};

/// An answer to one question; sequence numbers are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Number of messages.
    Count(u64),
    /// The [`content_hash`] of each message.
    Contents(Vec<u64>),
    /// For each message its RFC822.SIZE, and a hash of its envelope if the program reports one.
    Summaries(Vec<(u64, Option<u64>)>),
    /// For each message its parent and the smallest sequence number in its thread.
    Threads(Vec<(Option<u32>, u32)>),
    /// Sequence numbers found by a search.
    Numbers(Vec<u32>),
}

/// Header fields that belong to the mailbox rather than to the message.
pub(crate) const OWN_FIELDS: [&str; 8] = [
    "status",
    "x-status",
    "x-keywords",
    "x-uid",
    "x-imap",
    "x-imapbase",
    "content-length",
    "x-evolution-source",
];

/// Returns a hash of a message that ignores line ends, the header fields that mailboxes add, and
/// blank lines at its end. Invalid UTF-8 counts as U+FFFD, since some programs are read line by
/// line as text.
pub(crate) fn content_hash(message: &[u8]) -> u64 {
    let (mut text, mut is_header, mut is_own) = (String::new(), true, false);
    for line in message.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        is_header &= !line.is_empty();
        if is_header && !line.starts_with([' ', '\t']) {
            let name = line.split(':').next().unwrap_or_default().trim_end();
            is_own = OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own));
        }
        if !(is_header && is_own) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    xxh3_64(text.trim_end_matches('\n').as_bytes())
}

impl Answer {
    /// Compares the answer with the expected one.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first difference.
    pub(crate) fn compare(&self, expected: &Self) -> Result<()> {
        match (self, expected) {
            (Self::Count(found), Self::Count(expected)) => {
                ensure!(found == expected, "{found} messages and not {expected}");
                Ok(())
            }
            (Self::Contents(found), Self::Contents(expected)) => {
                each("the text of message", found, expected)
            }
            (Self::Threads(found), Self::Threads(expected)) => {
                each("the thread of message", found, expected)
            }
            (Self::Numbers(found), Self::Numbers(expected)) => {
                each("what was found, place", found, expected)
            }
            (Self::Summaries(found), Self::Summaries(expected)) => {
                ensure!(found.len() == expected.len(), "{} and {}", found.len(), expected.len());
                for (number, (found, expected)) in (1..).zip(found.iter().zip(expected)) {
                    let envelopes = found.1.zip(expected.1);
                    let is_same =
                        found.0 == expected.0 && envelopes.is_none_or(|(one, two)| one == two);
                    ensure!(
                        is_same,
                        "size or envelope of message {number} differ: {found:?}, {expected:?}"
                    );
                }
                Ok(())
            }
            _ => bail!("an answer to something else"),
        }
    }
}

impl Answer {
    /// Describes how an answer of c-client differs from the expected one, if the difference is
    /// tolerated (`docs/benchmarks.md`): c-client decodes the words of some subjects differently,
    /// and it finds nothing in a text that is invalid in its charset. Returns `None` if the
    /// difference is not tolerated.
    pub(crate) fn near(&self, expected: &Self) -> Option<String> {
        match (self, expected) {
            (Self::Threads(found), Self::Threads(expected)) => {
                let others = found.iter().zip(expected).filter(|(one, two)| one != two).count();
                let may =
                    found.len() == expected.len() && others <= found.len() / THREADS_ALIKE_MIN;
                may.then(|| format!("{others} of {} messages in other threads", found.len()))
            }
            (Self::Numbers(found), Self::Numbers(expected)) => {
                let missed: Vec<_> = expected.iter().filter(|one| !found.contains(one)).collect();
                let may = found.len() + missed.len() == expected.len()
                    && missed.len() <= expected.len() / SEARCHED_ALIKE_MIN;
                may.then(|| format!("of {} messages it does not find {missed:?}", expected.len()))
            }
            _ => None,
        }
    }
}

fn each<T: PartialEq + std::fmt::Debug>(what: &str, found: &[T], expected: &[T]) -> Result<()> {
    for (number, (found, expected)) in (1..).zip(found.iter().zip(expected)) {
        ensure!(found == expected, "{what} {number} is {found:?} and not {expected:?}");
    }
    ensure!(found.len() == expected.len(), "{} answers and not {}", found.len(), expected.len());
    Ok(())
}

/// The FETCH items whose answers are compared for `FULL BODY.PEEK[]`: the texts alone, as `ALL`
/// compares the rest.
pub(crate) const CONTENT_ITEMS: &str = "BODY.PEEK[]";

/// Visits each untagged response as it is on the wire, literals included, until end of file.
pub(crate) fn responses(
    mut reader: impl BufRead,
    visit: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut response = Vec::new();
    loop {
        response.clear();
        loop {
            if reader.read_until(b'\n', &mut response)? == 0 {
                ensure!(response.is_empty(), "a response is truncated");
                return Ok(());
            }
            let Some(len) = literal_len(&response) else { break };
            let start = response.len();
            response.resize(start + len, 0);
            reader.read_exact(&mut response[start..]).context("a literal is truncated")?;
        }
        let line = response.strip_suffix(b"\n").unwrap_or(&response);
        visit(line.strip_suffix(b"\r").unwrap_or(line))?;
    }
}

/// Returns the length of the literal that begins after a line.
pub(crate) fn literal_len(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"\n")?;
    let line = line.strip_suffix(b"\r").unwrap_or(line).strip_suffix(b"}")?;
    let open = line.iter().rposition(|byte| *byte == b'{')?;
    std::str::from_utf8(&line[open + 1..]).ok()?.parse().ok()
}

/// Returns the literal or quoted text after `BODY[] ` in a FETCH response without its `* `.
pub(crate) fn body(response: &[u8]) -> Option<&[u8]> {
    let at = find(response, b"BODY[] ")? + b"BODY[] ".len();
    let rest = &response[at..];
    match rest.first()? {
        b'{' => {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let len = literal_len(&rest[..=end])?;
            rest.get(end + 1..end + 1 + len)
        }
        b'"' => rest[1..].split(|byte| *byte == b'"').next(),
        _ => None,
    }
}

/// Returns size and envelope hash from a response to `FETCH ALL` without its `* `.
pub(crate) fn summary(response: &[u8]) -> Option<(u64, Option<u64>)> {
    let at = find(response, b"RFC822.SIZE ")? + b"RFC822.SIZE ".len();
    let digits = response[at..].split(|byte| !byte.is_ascii_digit()).next()?;
    let size = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let at = find(response, b"ENVELOPE (")? + b"ENVELOPE ".len();
    Some((size, Some(envelope_hash(&response[at..])?)))
}

/// Returns a hash of a list in parentheses that ignores whether its strings are quoted or literals.
/// A run of blanks counts as one, because Dovecot writes a single blank for folded white space.
fn envelope_hash(text: &[u8]) -> Option<u64> {
    let (mut tokens, mut depth, mut at) = (Vec::new(), 0_usize, 0);
    loop {
        match text.get(at)? {
            b'(' => {
                depth += 1;
                tokens.push(b'(');
                at += 1;
            }
            b')' => {
                depth = depth.checked_sub(1)?;
                tokens.push(b')');
                at += 1;
                if depth == 0 {
                    return Some(xxh3_64(&tokens));
                }
            }
            b'"' => {
                at += 1;
                tokens.push(b'"');
                while *text.get(at)? != b'"' {
                    at += usize::from(text[at] == b'\\');
                    push_squeezed(&mut tokens, text.get(at..=at)?);
                    at += 1;
                }
                tokens.push(0);
                at += 1;
            }
            b'{' => {
                let end = at + text[at..].iter().position(|byte| *byte == b'\n')?;
                let len = literal_len(&text[at..=end])?;
                tokens.push(b'"');
                push_squeezed(&mut tokens, text.get(end + 1..end + 1 + len)?);
                tokens.push(0);
                at = end + 1 + len;
            }
            b' ' => at += 1,
            _ => {
                let rest = &text[at..];
                let len = rest.iter().position(|byte| b" ()".contains(byte))?;
                tokens.extend_from_slice(&rest[..len]);
                tokens.push(0);
                at += len;
            }
        }
    }
}

fn push_squeezed(tokens: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        if *byte != b' ' || tokens.last() != Some(&b' ') {
            tokens.push(*byte);
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Parses the threads of `count` messages in the form of RFC 5256: `(2)(3 6 (4 23)(44 7 96))`.
pub(crate) fn threads(text: &str, count: usize) -> Result<Answer> {
    let mut found = vec![None; count];
    // For each open list, the message to which the next member replies.
    let (mut open, mut parent): (Vec<Option<u32>>, _) = (Vec::new(), None);
    let (mut members, mut digits) = (Vec::new(), String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            let number: u32 = digits.parse().with_context(|| digits.clone())?;
            digits.clear();
            members.push((number, parent));
            parent = Some(number);
        }
        match c {
            '(' => open.push(parent),
            ')' => {
                parent = open.pop().context("a list that was not opened")?;
                if open.is_empty() {
                    take_thread(&mut members, &mut found)?;
                }
            }
            ' ' => {}
            other => bail!("{other:?} in threads"),
        }
    }
    ensure!(open.is_empty() && digits.is_empty(), "the threads are truncated");
    let missing = found.iter().position(Option::is_none);
    ensure!(missing.is_none(), "message {missing:?}, counted from 0, is in no thread");
    Ok(Answer::Threads(found.into_iter().flatten().collect()))
}

type Found = Option<(Option<u32>, u32)>;

fn take_thread(members: &mut Vec<(u32, Option<u32>)>, found: &mut [Found]) -> Result<()> {
    let least = members.iter().map(|(number, _)| *number).min().unwrap_or(0);
    for (number, parent) in members.drain(..) {
        let place = found.get_mut((number as usize).wrapping_sub(1));
        let place = place.with_context(|| format!("message {number} does not exist"))?;
        ensure!(place.is_none(), "message {number} is in two places");
        *place = Some((parent, least));
    }
    Ok(())
}

/// Parses sequence numbers and ranges (`4:7`) separated by blanks, line ends or commas.
pub(crate) fn numbers(text: &str) -> Result<Answer> {
    let mut numbers = Vec::new();
    for word in text.split([' ', '\r', '\n', ',']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once(':').unwrap_or((word, word));
        let parse =
            |text: &str| text.parse::<u32>().with_context(|| format!("{word:?} is not a number"));
        let (first, last) = (parse(first)?, parse(last)?);
        ensure!(last.saturating_sub(first) < RANGE_LEN_MAX, "{word} is a long range");
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    Ok(Answer::Numbers(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_the_same_in_every_mailbox() {
        let one = content_hash(b"Subject: a\nStatus: RO\nX-UID: 7\n  8\nTo: b\n\nhello\n\n");
        assert_eq!(one, content_hash(b"Subject: a\r\nTo: b\r\n\r\nhello\r\n"));
        assert_ne!(one, content_hash(b"Subject: a\nTo: b\n\nhello\nStatus: RO\n"));
        assert_ne!(one, content_hash(b"Subject: a\nTo: b\n\nHello\n"));
    }

    #[test]
    fn responses_hold_literals() {
        let wire = b"* 1 FETCH (BODY[] {6}\r\na\r\n)\r\n)\r\n* 2 FETCH (BODY[] \"x\" UID 3)\n";
        let mut found = Vec::new();
        responses(&wire[..], &mut |response| {
            found.push(body(response).map(<[u8]>::to_vec));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, [Some(b"a\r\n)\r\n".to_vec()), Some(b"x".to_vec())]);
        assert!(responses(&b"* 1 FETCH (BODY[] {9}\r\nx"[..], &mut |_| Ok(())).is_err());
    }

    #[test]
    fn envelopes_are_compared_by_their_strings() {
        let check = |text: &str| summary(text.as_bytes()).unwrap();
        let quoted = r#"1 FETCH (FLAGS () RFC822.SIZE 12 ENVELOPE ("a" "b\"(" NIL ((NIL "x")))))"#;
        let literal = "1 FETCH (ENVELOPE ({1}\r\na \"b\\\"(\" NIL ((NIL \"x\"))) RFC822.SIZE 12)";
        assert_eq!(check(quoted), check(literal));
        assert_eq!(check(quoted).0, 12);
        assert_ne!(check(quoted), check(&quoted.replace("\"x\"", "\"y\"")));
        assert_ne!(check(quoted), check(&quoted.replace("\"a\"", "NIL")));
        let (folded, packed) =
            (quoted.replace("\"a\"", "\"a  b\""), quoted.replace("\"a\"", "\"a b\""));
        assert_eq!(check(&folded), check(&packed));
        assert_eq!(summary(b"1 FETCH (RFC822.SIZE 12 ENVELOPE (\"a"), None);
    }

    #[test]
    fn threads_are_parents() {
        let check = |text: &str, count, expected: &[(Option<u32>, u32)]| {
            assert_eq!(threads(text, count).unwrap(), Answer::Threads(expected.into()), "{text}");
        };
        check("(1)(2)", 2, &[(None, 1), (None, 2)]);
        let branched = [(None, 1), (Some(1), 1), (Some(2), 1), (Some(2), 1), (Some(4), 1)];
        check("(1 2 (3)(4 5))", 5, &branched);
        check("((1)(2))(3)", 3, &[(None, 1), (None, 1), (None, 3)]);
        for wrong in ["(1", "(1)(1)", "(1 3)", "1)", "(2)"] {
            assert!(threads(wrong, 2).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_few_threads_may_differ() {
        let threads = |different: usize| {
            let parent = |number: u32| (number as usize <= different).then_some(7);
            Answer::Threads((1..=3000).map(|number| (parent(number), number)).collect())
        };
        let near = threads(3).near(&threads(0));
        assert_eq!(near.as_deref(), Some("3 of 3000 messages in other threads"));
        assert_eq!(threads(4).near(&threads(0)), None);
        assert_eq!(Answer::Count(1).near(&Answer::Count(2)), None);
    }

    #[test]
    fn a_message_may_not_be_found() {
        let check = |found: &str, expected: Option<&str>| {
            let near = numbers(found).unwrap().near(&numbers("1:8").unwrap());
            assert_eq!(near.as_deref(), expected, "{found}");
        };
        check("1 3:8", Some("of 8 messages it does not find [2]"));
        check("1 4:8", None);
        check("1 3:8 9", None);
        check("2:9", None);
    }

    #[test]
    fn differences_are_named() {
        let check = |one: &Answer, two: &Answer, part: &str| {
            let error = one.compare(two).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check(&numbers("4:6,2").unwrap(), &numbers("2 4 5 7").unwrap(), "place 4 is 6 and not 7");
        check(&numbers("2 1").unwrap(), &numbers("1\n3").unwrap(), "place 2 is 2 and not 3");
        check(&numbers("1 2").unwrap(), &numbers("1").unwrap(), "2 answers and not 1");
        check(&Answer::Count(1), &Answer::Count(2), "1 messages and not 2");
        let (with, without) =
            (Answer::Summaries(vec![(1, Some(2))]), Answer::Summaries(vec![(1, None)]));
        without.compare(&with).unwrap();
        check(&with, &Answer::Summaries(vec![(1, Some(3))]), "message 1");
    }
}
