//! Events as lines of text or JSON.

use std::fmt::Write as _;
use std::net::IpAddr;

use barid::vfs::Timestamp;

use crate::config::{LogFormat, LogLevel};
use crate::limits::LOG_VALUE_LEN_MAX;

/// A value of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogValue<'a> {
    /// A text, which may come from anybody: it is escaped and cut.
    Text(&'a str),
    /// A number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
}

/// An event.
#[derive(Clone, Debug)]
pub struct LogEvent<'a> {
    /// Its importance.
    pub level: LogLevel,
    /// Its name: one word in lower case, such as `login`.
    pub name: &'static str,
    /// The session.
    pub session: Option<&'a str>,
    /// The user.
    pub user: Option<&'a str>,
    /// The address of the client.
    pub peer: Option<IpAddr>,
    /// Further values; names are words in lower case.
    pub values: Vec<(&'static str, LogValue<'a>)>,
}

impl<'a> LogEvent<'a> {
    /// Creates an event without values.
    #[must_use]
    pub fn new(level: LogLevel, name: &'static str) -> Self {
        Self { level, name, session: None, user: None, peer: None, values: Vec::new() }
    }

    /// Adds a text.
    #[must_use]
    pub fn text(mut self, name: &'static str, text: &'a str) -> Self {
        self.values.push((name, LogValue::Text(text)));
        self
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, name: &'static str, number: u64) -> Self {
        self.values.push((name, LogValue::Number(number)));
        self
    }

    /// Returns the line of the event, with its end.
    #[must_use]
    pub fn line(&self, format: LogFormat, now: Timestamp) -> String {
        let mut line = String::with_capacity(200);
        match format {
            LogFormat::Text => self.write_text(&mut line, now),
            LogFormat::Json => self.write_json(&mut line, now),
        }
        line.push('\n');
        line
    }

    /// Returns all values, the common ones first.
    fn all_values(&self, visit: &mut dyn FnMut(&str, LogValue<'_>)) {
        if let Some(session) = self.session {
            visit("session", LogValue::Text(session));
        }
        if let Some(user) = self.user {
            visit("user", LogValue::Text(user));
        }
        if let Some(peer) = self.peer {
            visit("peer", LogValue::Text(&peer.to_string()));
        }
        for (name, value) in &self.values {
            visit(name, *value);
        }
    }

    fn write_text(&self, line: &mut String, now: Timestamp) {
        write_time(line, now);
        let _ = write!(line, " {} {}", self.level.name(), self.name);
        self.all_values(&mut |name, value| {
            let _ = write!(line, " {name}=");
            match value {
                LogValue::Text(text) if is_word(text) => line.push_str(text),
                LogValue::Text(text) => quote(line, text),
                LogValue::Number(number) => {
                    let _ = write!(line, "{number}");
                }
                LogValue::Flag(flag) => line.push_str(if flag { "yes" } else { "no" }),
            }
        });
    }

    fn write_json(&self, line: &mut String, now: Timestamp) {
        line.push_str("{\"time\":\"");
        write_time(line, now);
        let _ = write!(line, "\",\"level\":\"{}\",\"event\":\"{}\"", self.level.name(), self.name);
        self.all_values(&mut |name, value| {
            let _ = write!(line, ",\"{name}\":");
            match value {
                LogValue::Text(text) => quote(line, text),
                LogValue::Number(number) => {
                    let _ = write!(line, "{number}");
                }
                LogValue::Flag(flag) => {
                    let _ = write!(line, "{flag}");
                }
            }
        });
        line.push('}');
    }
}

/// Returns `true` if a text needs no quotes.
fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@:/+<>[]".contains(&byte);
    !text.is_empty() && text.len() <= LOG_VALUE_LEN_MAX && text.bytes().all(is_plain)
}

/// Writes a text as a string of JSON, in which nothing can end the line or control a terminal.
fn quote(line: &mut String, text: &str) {
    line.push('"');
    let mut left = LOG_VALUE_LEN_MAX;
    for char in text.chars() {
        let Some(rest) = left.checked_sub(char.len_utf8()) else {
            line.push('…');
            break;
        };
        left = rest;
        match char {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            char if steers(char) => {
                let mut units = [0; 2];
                for unit in char.encode_utf16(&mut units) {
                    let _ = write!(line, "\\u{unit:04x}");
                }
            }
            char => line.push(char),
        }
    }
    line.push('"');
}

/// Returns `true` for characters that control a terminal or the direction of text.
fn steers(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(char, '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Writes a time in UTC with milliseconds (RFC 3339).
fn write_time(line: &mut String, now: Timestamp) {
    let (seconds, nanos) = (now.unix_seconds(), now.unix_nanos.rem_euclid(1_000_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let millis = nanos / 1_000_000;
    let _ = write!(
        line,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
    );
}

/// Returns the date of a day since 1970 in the Gregorian calendar (the algorithm `civil_from_days`
/// of Howard Hinnant).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp { unix_nanos: 1_709_210_096_789_000_000 };

    fn check(event: &LogEvent<'_>, text: &str, json: &str) {
        let start = "2024-02-29T12:34:56.789Z";
        assert_eq!(event.line(LogFormat::Text, NOW), format!("{start} {text}\n"));
        let line = event.line(LogFormat::Json, NOW);
        assert_eq!(line, format!("{{\"time\":\"{start}\",{json}}}\n"));
    }

    #[test]
    fn events_are_lines_of_text_and_json() {
        let event = LogEvent {
            session: Some("a1"),
            user: Some("ann@example.org"),
            peer: Some("192.0.2.7".parse().unwrap()),
            ..LogEvent::new(LogLevel::Info, "login").text("client", "Old Mail").number("bytes", 7)
        };
        check(
            &event,
            "info login session=a1 user=ann@example.org peer=192.0.2.7 client=\"Old Mail\" \
             bytes=7",
            "\"level\":\"info\",\"event\":\"login\",\"session\":\"a1\",\
             \"user\":\"ann@example.org\",\"peer\":\"192.0.2.7\",\"client\":\"Old Mail\",\
             \"bytes\":7",
        );
    }

    #[test]
    fn nothing_of_others_ends_a_line_or_steers_a_terminal() {
        let hostile = "a\r\n2024 info login \u{1b}[2J\u{202e}\u{2028}\u{85}\"\\\0";
        let event = LogEvent::new(LogLevel::Warn, "refused").text("name", hostile);
        for format in [LogFormat::Text, LogFormat::Json] {
            let line = event.line(format, NOW);
            assert_eq!(line.matches(|char: char| steers(char)).count(), 1, "{line:?}");
            assert!(line.ends_with('\n') && !line.trim_end().contains('\n'));
        }
        let long = "x".repeat(100_000);
        let line = LogEvent::new(LogLevel::Warn, "refused").text("name", &long);
        assert!(line.line(LogFormat::Text, NOW).len() < LOG_VALUE_LEN_MAX + 100);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |days, expected| assert_eq!(civil(days), expected);
        check(0, (1970, 1, 1));
        check(-1, (1969, 12, 31));
        check(11_016, (2000, 2, 29));
        check(20_781, (2026, 11, 24));
    }
}
