//! Mailboxes as files for the peers.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use barid_message::{Profile, parse_date_as};

use crate::mail::Message;

/// Writes messages as a Maildir with names in their order; the files' times are the arrival times.
#[expect(clippy::disallowed_methods, reason = "a mailbox for other programs, not for barid")]
pub(crate) fn write_maildir(folder: &Path, messages: &[Message]) -> io::Result<()> {
    for name in ["cur", "new", "tmp"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    for (number, message) in messages.iter().enumerate() {
        let name = format!("cur/{}.M{number}P1.example:2,", 1_000_000_000 + number);
        let mut file = std::fs::File::create(folder.join(name))?;
        io::Write::write_all(&mut file, &message.raw)?;
        let seconds = Duration::from_secs(message.arrival.unsigned_abs());
        file.set_modified(SystemTime::UNIX_EPOCH + seconds)?;
    }
    Ok(())
}

/// Writes messages as an mbox.
#[expect(clippy::disallowed_methods, reason = "a mailbox for other programs, not for barid")]
pub(crate) fn write_mbox(path: &Path, messages: &[Message]) -> io::Result<()> {
    std::fs::write(path, mbox(messages))
}

/// Splits an mbox as simply as test data allows: at every `From ` after an empty line.
pub(crate) fn parse_mbox(mbox: &[u8]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut after_empty = true;
    for line in mbox.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if after_empty && text.starts_with(b"From ") {
            messages.push(Message { raw: Vec::new(), arrival: from_line_date(text) });
        } else if let Some(last) = messages.last_mut() {
            last.raw.extend_from_slice(line);
        }
        after_empty = text.is_empty();
    }
    // The empty line before a separator or the end belongs to the separator.
    for message in &mut messages {
        let raw = message.raw.strip_suffix(b"\r\n").or(message.raw.strip_suffix(b"\n"));
        message.raw.truncate(raw.map_or(0, <[u8]>::len));
    }
    messages
}

/// Parses `From sender  Fri Feb 22 23:00:00 2008 +0200`.
fn from_line_date(line: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(line);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let at = words.iter().position(|word| word.matches(':').count() == 2).unwrap();
    let (month, day, time, year) = (words[at - 2], words[at - 1], words[at], words[at + 1]);
    let zone = words.get(at + 2).unwrap_or(&"+0000");
    let date = format!("{day} {month} {year} {time} {zone}");
    parse_date_as(date.as_bytes(), Profile::Rfc).unwrap().unix_seconds
}

/// Writes messages as an mbox; arrival in the separators, in UTC.
pub(crate) fn mbox(messages: &[Message]) -> Vec<u8> {
    let mut mbox = Vec::new();
    for message in messages {
        mbox.extend_from_slice(b"From MAILER-DAEMON ");
        mbox.extend_from_slice(asctime(message.arrival).as_bytes());
        mbox.push(b'\n');
        mbox.extend_from_slice(&message.raw);
        if !message.raw.ends_with(b"\n") {
            mbox.push(b'\n');
        }
        mbox.push(b'\n');
    }
    mbox
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Returns year, month from 0 and day of the month of a day since 1970.
fn civil(day: i64) -> (i64, usize, i64) {
    let (mut year, mut rest) = (1970, day);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    while rest >= 365 + i64::from(is_leap(year)) {
        rest -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + i64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while rest >= lengths[month] {
        rest -= lengths[month];
        month += 1;
    }
    (year, month, rest + 1)
}

/// Returns `Thu Jan  1 00:00:00 1970`.
fn asctime(seconds: i64) -> String {
    let (day, time) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
    let (year, month, day_of_month) = civil(day);
    let weekday = WEEKDAYS[day.rem_euclid(7) as usize];
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let month = MONTHS[month];
    format!("{weekday} {month} {day_of_month:2} {hour:02}:{minute:02}:{second:02} {year}")
}

/// Returns `Thu, 1 Jan 1970 02:00:00 +0200`.
pub(crate) fn rfc5322_date(seconds: i64, zone_hours: i64) -> String {
    let text = asctime(seconds + zone_hours * 3600);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [weekday, month, day, time, year] = words[..] else { unreachable!("five words") };
    format!("{weekday}, {day} {month} {year} {time} {zone_hours:+03}00")
}
