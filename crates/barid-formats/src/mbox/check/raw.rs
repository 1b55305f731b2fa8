//! Check for zeros, and for damaged lines that were separators.

use std::io;
use std::ops::Range;

use barid_types::InternalDate;

use super::super::FromProfile;
use super::super::from_line;
use super::super::layout::{FROM_LINE_LEN_MAX, MMDF_SEPARATOR};
use super::MboxCheck;
use crate::check::{Severity, sent_date};

/// Bytes read at once.
const READ_LEN: usize = 1 << 20;
/// Bytes read after a suspicious line: the beginning of a header.
const AHEAD_LEN: usize = 8 * 1024;
/// Shortest run of zeros that counts as the remains of a crash.
const ZEROS_MIN: u64 = 8;
/// Fields that messages usually have.
const FIELDS: [&[u8]; 9] = [
    b"received",
    b"return-path",
    b"message-id",
    b"status",
    b"x-uid",
    b"date",
    b"from",
    b"to",
    b"subject",
];

/// Checks all bytes once.
pub(super) fn look_at_bytes(look: &mut MboxCheck<'_>) -> io::Result<()> {
    let mut buffer = vec![0; READ_LEN + AHEAD_LEN];
    let mut from = 0;
    while from < look.end {
        let want = buffer.len().min((look.end - from) as usize);
        let len = look.file.read_full_at(&mut buffer[..want], from)?;
        if len == 0 {
            break;
        }
        // The bytes after are checked with the next piece.
        let own = if len > READ_LEN { READ_LEN } else { len };
        let zeros_end = zeros(look, &buffer[..len], own, from)?;
        if !look.is_mmdf() {
            separators(look, &buffer[..len], own, from);
        }
        from = zeros_end.max(from + own as u64);
    }
    Ok(())
}

/// Finds runs of zeros that begin in the first `own` bytes; returns the end of the last one.
fn zeros(look: &mut MboxCheck<'_>, bytes: &[u8], own: usize, from: u64) -> io::Result<u64> {
    let mut at = 0;
    let mut end = 0;
    while let Some(start) = memchr::memchr(0, &bytes[at..own]).map(|skip| at + skip) {
        let len = bytes[start..].iter().take_while(|byte| **byte == 0).count();
        end = from + (start + len) as u64;
        if start + len == bytes.len() {
            end = zeros_end(look, end)?;
        }
        at = start + len;
        let run = from + start as u64..end;
        if run.end - run.start >= ZEROS_MIN {
            let after = bytes.get(at..at + MMDF_SEPARATOR.len());
            run_of_zeros(look, run, after)?;
        }
        if at >= own {
            break;
        }
    }
    Ok(end)
}

/// Returns the end of a run of zeros that continues at `at`.
fn zeros_end(look: &MboxCheck<'_>, mut at: u64) -> io::Result<u64> {
    let mut buffer = vec![0; READ_LEN];
    while at < look.end {
        let want = buffer.len().min((look.end - at) as usize);
        let len = look.file.read_full_at(&mut buffer[..want], at)?;
        let zeros = buffer[..len].iter().take_while(|byte| **byte == 0).count();
        at += zeros as u64;
        if zeros < want {
            break;
        }
    }
    Ok(at)
}

/// Records a run of zeros. Before a separator they can be removed; `behind` contains the bytes
/// after the run, which are read from the file if it is `None`.
fn run_of_zeros(look: &mut MboxCheck<'_>, run: Range<u64>, after: Option<&[u8]>) -> io::Result<()> {
    let what = format!("{} zeros in a row, probably from a crash", run.end - run.start);
    let damage = look.damage("zeros", Severity::Error, run.start).what(what);
    let mut read = [0; MMDF_SEPARATOR.len()];
    let after = match after {
        Some(after) => after,
        None => {
            let len = look.file.read_full_at(&mut read, run.end)?;
            &read[..len]
        }
    };
    if after != b"From " && after != MMDF_SEPARATOR {
        look.diagnosis.note(damage);
        return Ok(());
    }
    let mut before = *b"\n";
    if run.start > 0 {
        look.file.read_exact_at(&mut before, run.start - 1)?;
    }
    let line_end: &[u8] = if before == *b"\n" { b"" } else { b"\n" };
    look.suspect(run, line_end, damage.repair("they are removed"));
    Ok(())
}

/// Finds lines after blank lines that look like damaged separators.
fn separators(look: &mut MboxCheck<'_>, bytes: &[u8], own: usize, from: u64) {
    let is_blank = |at: &usize| bytes.get(at + 1) == Some(&b'\n');
    for at in memchr::memchr_iter(b'\n', &bytes[..own]).filter(is_blank) {
        let start = at + 2;
        let rest = &bytes[start..];
        let Some(len) = memchr::memchr(b'\n', &rest[..rest.len().min(FROM_LINE_LEN_MAX)]) else {
            continue;
        };
        let (line, after) = (&rest[..len], &rest[len + 1..]);
        if from_line::parse(line, FromProfile::Union).is_some() {
            continue;
        }
        let offset = from + start as u64;
        let Some(fresh) = separator_of(line, after) else { continue };
        let what = "the line looks like a separator between messages, but is not valid";
        let damage = look.damage("separator", Severity::Error, offset).what(what);
        let range = offset..offset + len as u64;
        let damage = damage.repair("it is rewritten as a separator, so that the message is shown");
        look.suspect(range, &fresh, damage);
    }
}

/// Reconstructs the separator from a damaged line; `None` if the line does not look like one.
fn separator_of(line: &[u8], after: &[u8]) -> Option<Vec<u8>> {
    if !is_header(after) || line.len() < 8 {
        return None;
    }
    let first = [b"From ", &line[5..]].concat();
    if from_line::parse(&first, FromProfile::CClient).flatten().is_some() {
        let same = line.iter().zip(b"From ").filter(|(a, b)| a == b).count();
        return (same >= 2).then_some(first);
    }
    if !line.starts_with(b"From ") || !has_time(line) {
        return None;
    }
    let sender = line[5..].split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_plain = |sender: &&[u8]| !sender.is_empty() && sender.iter().all(u8::is_ascii_graphic);
    let sender = Some(sender).filter(is_plain).unwrap_or(b"MAILER-DAEMON");
    let date = sent_date(after).unwrap_or_default();
    Some([b"From ", sender, b" ", asctime(date).as_bytes()].concat())
}

/// Returns `true` if the lines contain at least two fields of a usual header.
fn is_header(bytes: &[u8]) -> bool {
    let is_known = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.len() < line.len() && FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field))
    };
    let lines = bytes.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    let mut lines = lines.take(100).peekable();
    let is_field = |line: &&[u8]| memchr::memchr(b':', line).is_some_and(|colon| colon > 0);
    lines.peek().is_some_and(is_field) && lines.filter(|line| is_known(line)).count() >= 2
}

/// Returns `true` if a line contains `hh:mm`.
fn has_time(line: &[u8]) -> bool {
    line.windows(5).any(|five| {
        five[2] == b':' && [0, 1, 3, 4].iter().all(|at: &usize| five[*at].is_ascii_digit())
    })
}

/// Formats a date for a From_ line, in UTC.
fn asctime(date: InternalDate) -> String {
    let time = jiff::Timestamp::from_second(date.unix_seconds).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::UTC).strftime("%a %b %e %H:%M:%S %Y +0000").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, after: &str, expected: Option<&str>) {
        let found = separator_of(line.as_bytes(), after.as_bytes());
        let found = found.map(|found| String::from_utf8(found).unwrap());
        assert_eq!(found.as_deref(), expected, "{line}");
    }

    #[test]
    fn a_line_that_was_a_separator_is_made_one_again() {
        let header = "Date: Tue, 1 Jan 2019 10:00:00 +0000\nFrom: a\n\n";
        let good = "From ann@example.org Tue Jan  1 10:00:00 2019";
        check(&good.replace("From", "Fr#m"), header, Some(good));
        check("xrom ann@example.org Tue Jan  1 10:00:00 2019", header, Some(good));
        let mended = "From ann@example.org Tue Jan  1 10:00:00 2019 +0000";
        check("From ann@example.org Tue 1\u{1}Jan 10:00:0x 2019", header, Some(mended));
        check("From here to there at 10:00 we went", "and home\n", None);
        check("Please see the note of Tue Jan  1 10:00:00 2019", header, None);
    }
}
