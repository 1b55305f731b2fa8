//! Configuration files, and parsers for the values of settings and options.

use std::io::Read as _;
use std::path::Path;

use barid_vfs::OsVfs;

use crate::getopt::Known;
use crate::limits::CONFIG_LEN_MAX;
use crate::output::Stop;

/// The site-wide configuration file.
pub(crate) const SITE: &str = "/etc/bogofilter.cf";
/// The user's configuration file.
pub(crate) const USER: &[u8] = b"~/.bogofilter.cf";

/// Bytes of a line that bogofilter reads at once.
const LINE_LEN: usize = 199;

/// Buffer size that fits most configuration files, in bytes.
const CONFIG_LEN: usize = 16 * 1024;

/// A line of a configuration file, with the key of its option and the value; `None` for a line
/// without a known option.
pub(crate) type Setting<'a> = (&'a [u8], Option<(&'static str, &'a [u8])>);

/// Passes every line that is not a comment to `each`. Returns the error of a file that cannot be
/// read.
pub(crate) fn read(
    path: &Path,
    known: &Known,
    each: &mut dyn FnMut(Setting<'_>) -> Result<(), Stop>,
) -> Result<std::io::Result<()>, Stop> {
    let bytes = match read_all(path) {
        Ok(bytes) => bytes,
        Err(error) => return Ok(Err(error)),
    };
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        for line in line.chunks(LINE_LEN) {
            if matches!(line.first(), Some(b'#' | b';' | b'\n')) {
                continue;
            }
            let is_end = |byte: &u8| byte.is_ascii_control() || *byte == b' ';
            let len = line.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1);
            let line = &line[..len];
            let setting = split(line);
            each((line, setting.and_then(|(name, value)| Some((known.of_config(name)?, value)))))?;
        }
    }
    Ok(Ok(()))
}

/// Returns the contents of a file of any type, or an error if it is larger than [`CONFIG_LEN_MAX`].
pub(crate) fn read_all(path: &Path) -> std::io::Result<Vec<u8>> {
    // The capacity fits a usual file, so that it is not read in many small pieces.
    let mut bytes = Vec::with_capacity(CONFIG_LEN);
    OsVfs.open_input(path)?.take(CONFIG_LEN_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > CONFIG_LEN_MAX {
        true => Err(std::io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Splits a line into name and value at blanks or `=`. A value of `''` is empty.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_delimiter = |byte: &u8| matches!(byte, b' ' | b'\t' | b'=');
    let start = line.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let line = &line[start..];
    let end = line.iter().position(is_delimiter)?;
    let rest = &line[end..];
    let len = rest.iter().take_while(|byte| is_delimiter(byte)).count();
    let value = &rest[len..];
    Some((&line[..end], if value == b"''" { b"" } else { value }))
}

/// Returns the value without a comment and the blanks before it.
pub(crate) fn text(value: &[u8]) -> Vec<u8> {
    let Some(at) = value.iter().position(|byte| *byte == b'#') else { return value.to_vec() };
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0B;
    let len = value[..at].iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1);
    value[..len].to_vec()
}

/// Parses a boolean by its first letter.
pub(crate) fn yes(value: &[u8]) -> Result<bool, Stop> {
    let first = value.iter().find(|byte| !byte.is_ascii_whitespace());
    match first.map(u8::to_ascii_uppercase) {
        Some(b'Y' | b'T' | b'1') => Ok(true),
        Some(b'N' | b'F' | b'0') => Ok(false),
        _ => {
            let shown = String::from_utf8_lossy(value).into_owned();
            Err(Stop::error(format!("Invalid boolean value - {shown}")))
        }
    }
}

/// Parses a number, which may be followed by a comma and more.
pub(crate) fn number(value: &[u8]) -> Option<f64> {
    let value = text(value);
    let start = value.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(value.len());
    let value = &value[start..];
    let end = value.iter().position(|byte| *byte == b',').unwrap_or(value.len());
    let number = std::str::from_utf8(&value[..end]).ok()?;
    number.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses an integer like C's `atoi`; saturates on overflow.
pub(crate) fn integer(value: &[u8]) -> i64 {
    let start = value.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(value.len());
    let (sign, digits) = match &value[start..] {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    sign * digits.fold(0_i64, |number, digit| {
        number.saturating_mul(10).saturating_add(i64::from(digit - b'0'))
    })
}

/// Returns the parts of a list separated by blanks or commas.
pub(crate) fn parts(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b' ' | b',')).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_name_and_a_value() {
        let check = |line: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            assert_eq!(split(line.as_bytes()), expected, "{line}");
        };
        check("spam_cutoff=0.9", Some(("spam_cutoff", "0.9")));
        check("  spam_cutoff \t= 0.9 # why", Some(("spam_cutoff", "0.9 # why")));
        check("terse yes", Some(("terse", "yes")));
        check("header_place=''", Some(("header_place", "")));
        check("terse", None);
        check("", None);
    }

    /// This includes files of the kernel, whose size is 0.
    #[test]
    fn files_are_read_whatever_their_size() {
        assert!(!read_all(Path::new("/proc/self/status")).unwrap().is_empty());
        assert!(read_all(Path::new("/dev/null")).unwrap().is_empty());
        let endless = read_all(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), std::io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn values_are_read_as_bogofilter_does() {
        assert_eq!(text(b"a b  # c"), b"a b");
        assert_eq!(text(b"# c"), b"");
        for (value, expected) in
            [("0.5", Some(0.5)), (" 1e-3 # no", Some(1e-3)), ("0.5,x", Some(0.5)), ("x", None)]
        {
            assert_eq!(number(value.as_bytes()), expected, "{value}");
        }
        assert_eq!((integer(b" 12x"), integer(b"-3"), integer(b"x")), (12, -3, 0));
        assert!(yes(b"Yes").is_ok_and(|yes| yes) && yes(b"0").is_ok_and(|yes| !yes));
        assert!(yes(b"maybe").is_err());
        assert!(parts(b"a, b,,c").eq([b"a", b"b", b"c"]));
    }
}
