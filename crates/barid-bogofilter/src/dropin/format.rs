//! The formats of header lines, terse lines and log lines.
//!
//! As in bogofilter, digits other than 0 and `-` in a directive have no effect, so there are no
//! widths.

use barid_bayes::{Facts, Status};
use barid_wordlist::date_of;

use super::printf::{self, Spec};
use super::settings::index_of;
use super::{Error, Result, Settings};

/// Version of bogofilter that is imitated.
const VERSION: &[u8] = b"1.2.5";
/// Text for a fact that a message does not have.
const UNKNOWN: &[u8] = b"UNKNOWN";
/// Bytes of a number that fit into bogofilter's buffer.
const NUMBER_LEN_MAX: usize = 19;

/// The values that directives can print.
pub(super) struct Saying<'a> {
    pub(super) settings: &'a Settings,
    pub(super) facts: &'a Facts,
    pub(super) spamicity: f64,
    pub(super) status: Status,
    pub(super) words: usize,
    pub(super) messages: u32,
    /// `%r`.
    pub(super) run: &'static str,
    /// Seconds since 1970, for `%D`.
    pub(super) now: i64,
}

/// The flags and precision of a directive.
#[derive(Clone, Copy, Debug, Default)]
struct Directive {
    zeros: bool,
    is_delta: bool,
    precision: Option<usize>,
}

impl Saying<'_> {
    /// Writes the result of a format.
    pub(super) fn write(&self, format: &[u8], to: &mut Vec<u8>) -> Result<()> {
        let mut rest = format;
        let mut spamicity = self.spamicity;
        while let Some(at) = memchr::memchr(b'%', rest) {
            to.extend_from_slice(&rest[..at]);
            let (directive, len) = self.directive(&rest[at + 1..]);
            rest = &rest[at + 1 + len..];
            let Some((letter, after)) = rest.split_first() else { return Ok(()) };
            rest = after;
            self.one(*letter, directive, &mut spamicity, to)?;
        }
        to.extend_from_slice(rest);
        Ok(())
    }

    fn directive(&self, text: &[u8]) -> (Directive, usize) {
        let mut directive = Directive::default();
        let mut at = 0;
        loop {
            match text.get(at) {
                Some(b'1'..=b'9' | b'-') => {}
                Some(b'0') => directive.zeros = true,
                Some(b'#') => directive.is_delta |= self.status == Status::Spam,
                _ => break,
            }
            at += 1;
        }
        if text.get(at) == Some(&b'.') {
            at += 1;
            let mut precision = None;
            while let Some(digit @ b'0'..=b'9') = text.get(at) {
                let before = precision.unwrap_or(0_usize);
                precision = Some(before.saturating_mul(10).saturating_add((digit - b'0').into()));
                at += 1;
            }
            directive.precision = precision;
        }
        (directive, at)
    }

    /// Writes the value of a directive letter. `%d` for spam changes the value of later directives,
    /// as in bogofilter.
    fn one(
        &self,
        letter: u8,
        directive: Directive,
        spamicity: &mut f64,
        to: &mut Vec<u8>,
    ) -> Result<()> {
        let settings = self.settings;
        let formats = &settings.formats;
        let index = index_of(self.status);
        let cut = |bytes: &[u8], to: &mut Vec<u8>| {
            let len = directive.precision.map_or(bytes.len(), |len| len.min(bytes.len()));
            to.extend_from_slice(&bytes[..len]);
        };
        let known = |fact: &[u8], to: &mut Vec<u8>| {
            cut(if fact.is_empty() { UNKNOWN } else { fact }, to);
        };
        match letter {
            b'%' => to.push(b'%'),
            b'A' => known(&self.facts.address, to),
            b'I' => known(&self.facts.message_id, to),
            b'Q' => known(&self.facts.queue_id, to),
            b'c' => cut(&formats.tags[index], to),
            b'd' | b'p' => {
                if letter == b'd' && self.status == Status::Spam {
                    *spamicity = 1.0 - *spamicity;
                }
                printf::print(&formats.spamicity[index], *spamicity, NUMBER_LEN_MAX, to);
            }
            b'D' => write_time(self.now, to),
            b'e' | b'f' | b'g' => float(*spamicity, directive, letter, 6, to),
            b'o' => float(settings.parameters.spam_cutoff, directive, b'e', 2, to),
            b'h' => cut(settings.tokens.spam_header_name.as_bytes(), to),
            b'l' => cut(&formats.log_tag, to),
            b'r' => to.extend_from_slice(self.run.as_bytes()),
            b'u' => cut(&settings.user, to),
            b'w' => printf::text(to, format_args!("{}", self.words)),
            b'm' => printf::text(to, format_args!("{}", self.messages)),
            b'v' => cut(VERSION, to),
            unknown => return Err(Error::Directive(unknown)),
        }
        Ok(())
    }
}

fn float(value: f64, directive: Directive, letter: u8, precision: usize, to: &mut Vec<u8>) {
    let delta = 1.0 - value;
    let value = if directive.is_delta && delta <= 0.001 { delta } else { value };
    let precision = match (directive.precision, letter) {
        (Some(precision), _) => precision,
        (None, b'e') => 2,
        (None, _) => precision,
    };
    let spec = Spec { zeros: directive.zeros, precision: Some(precision), ..Spec::default() };
    let start = to.len();
    printf::number(value, spec, letter, to);
    to.truncate(start + NUMBER_LEN_MAX);
}

/// Writes a time in ISO 8601 format, in UTC.
fn write_time(unix_seconds: i64, to: &mut Vec<u8>) {
    let (days, seconds) = (unix_seconds.div_euclid(86_400), unix_seconds.rem_euclid(86_400));
    let date = date_of(u32::try_from(days).unwrap_or(0));
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let args = format_args!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    printf::text(to, args);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: Status, spamicity: f64, format: &str, expected: &str) {
        let settings = Settings::default();
        let facts = Facts { message_id: b"<1@a>".to_vec(), ..Facts::default() };
        let saying = Saying {
            settings: &settings,
            facts: &facts,
            spamicity,
            status,
            words: 7,
            messages: 2,
            run: "Sn",
            now: 1_793_000_000,
        };
        let mut found = Vec::new();
        saying.write(format.as_bytes(), &mut found).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), expected, "{format}");
    }

    #[test]
    fn what_directives_say() {
        let header = "%h: %c, tests=bogofilter, spamicity=%p, version=%v";
        let said = "X-Bogosity: Ham, tests=bogofilter, spamicity=0.000000, version=1.2.5";
        check(Status::Ham, 5.068_911_31e-8, header, said);
        check(Status::Ham, 5.068_911_31e-8, "%1.1c %-8.6g", "H 5.06891e-08");
        check(Status::Spam, 1.0, "%1.1c %f", "S 1.000000");
        check(
            Status::Unsure,
            0.52,
            "%0.16f|%12e|%.3c|%o",
            "0.5200000000000000|5.20e-01|Uns|9.90e-01",
        );
        check(Status::Spam, 0.999_999_9, "%d %#e %p", "0.000000 1.00e-07 0.000000");
        check(Status::Ham, 0.25, "%d %#e", "0.250000 2.50e-01");
        check(
            Status::Ham,
            0.25,
            "%I %Q %A %w %m %r %D %%",
            "<1@a> UNKNOWN UNKNOWN 7 2 Sn 2026-10-26T07:33:20Z %",
        );
        check(Status::Ham, 0.25, "%", "");
    }
}
