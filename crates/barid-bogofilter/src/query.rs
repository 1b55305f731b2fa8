//! `bogofilter -Q`: prints the settings.

use std::io::Write as _;

use barid_bayes::WordEncoding;
use barid_vfs::OsVfs;
use barid_wordlist::today;

use crate::dropin::{ListSpec, Settings};
use crate::options::Options;
use crate::output::Stop;

/// The name of a list that is not named in any setting.
const DEFAULT_LIST: &[u8] = b"word";

/// Returns the report.
pub(crate) fn text(
    options: &Options,
    settings: &Settings,
    specs: &[ListSpec],
) -> Result<Vec<u8>, Stop> {
    let mut to = Table { level: options.query, text: Vec::new() };
    to.text.extend_from_slice(b"# bogofilter version 1.2.5\n\n");
    parameters(&mut to, settings);
    to.line(1, b"");
    if options.query > 2 {
        let parameters = &settings.parameters;
        to.number(3, "token-count", parameters.token_count as u64);
        to.number(3, "token-count-min", parameters.token_count_min as u64);
        to.number(3, "token-count-max", parameters.token_count_max as u64);
        to.line(3, b"");
    }
    words(&mut to, options, settings);
    to.line(1, b"");
    formats(&mut to, settings);
    to.line(2, b"");
    files(&mut to, options, specs)?;
    Ok(to.text)
}

struct Table {
    level: u32,
    text: Vec<u8>,
}

impl Table {
    fn line(&mut self, level: u32, line: &[u8]) {
        if self.level >= level {
            self.text.extend_from_slice(line);
            self.text.push(b'\n');
        }
    }

    fn wide(&mut self, level: u32, width: usize, name: &str, value: &[u8]) {
        let name = format!("{name:<width$} = ");
        self.line(level, &[name.as_bytes(), value].concat());
    }

    fn bytes(&mut self, level: u32, name: &str, value: &[u8]) {
        self.wide(level, 17, name, value);
    }

    fn named(&mut self, level: u32, width: usize, name: &str, value: &[u8]) {
        self.wide(level, width, name, if value.is_empty() { b"''" } else { value });
    }

    fn yes(&mut self, level: u32, name: &str, is_so: bool) {
        self.bytes(level, name, yes(is_so));
    }

    fn number(&mut self, level: u32, name: &str, value: u64) {
        self.bytes(level, name, value.to_string().as_bytes());
    }
}

fn yes(is_so: bool) -> &'static [u8] {
    if is_so { b"Yes" } else { b"No" }
}

fn parameters(to: &mut Table, settings: &Settings) {
    let of = &settings.parameters;
    for (name, value) in [
        ("robx", of.robx),
        ("robs", of.robs),
        ("min_dev", of.min_dev),
        ("ham_cutoff", of.ham_cutoff),
        ("spam_cutoff", of.spam_cutoff),
        ("ns_esf", of.ns_esf),
        ("sp_esf", of.sp_esf),
    ] {
        let (digits, exponent) = exponential(value);
        let sign = if exponent < 0 { '-' } else { '+' };
        let exponent = exponent.abs();
        let line = format!("{name:<11} = {value:.6}  # ({digits}e{sign}{exponent:02})");
        to.line(1, line.as_bytes());
    }
}

/// Formats the mantissa with two digits after the point, and returns it with the power of ten.
fn exponential(value: f64) -> (String, i32) {
    let text = format!("{value:.2e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (digits.to_owned(), exponent.parse().unwrap_or(0))
}

fn words(to: &mut Table, options: &Options, settings: &Settings) {
    let tokens = &settings.tokens;
    to.yes(1, "block-on-subnets", tokens.block_on_subnets);
    let is_utf8 = settings.encoding.unwrap_or_default() == WordEncoding::Utf8;
    to.bytes(1, "encoding", if is_utf8 { b"utf-8" } else { b"raw" });
    to.bytes(1, "charset-default", tokens.charset_default.as_bytes());
    to.yes(1, "replace-nonascii-characters", tokens.replace_non_ascii);
    to.yes(2, "no-header-tags", tokens.header_prefixes);
    to.yes(1, "stats-in-header", settings.stats_in_header);
    to.yes(2, "report-unsure", settings.unsure_stats);
    to.bytes(1, "thresh-update", format!("{:.6}", settings.thresh_update).as_bytes());
    to.yes(1, "timestamp", options.timestamps);
    let date = options.date.unwrap_or_else(|| today(&OsVfs));
    to.number(2, "timestamp-date", date.into());
}

fn formats(to: &mut Table, settings: &Settings) {
    let formats = &settings.formats;
    to.bytes(1, "spam-header-name", settings.tokens.spam_header_name.as_bytes());
    to.named(1, 17, "spam-header-place", &settings.header_place);
    to.named(1, 17, "spam-subject-tag", settings.spam_subject_tag.as_deref().unwrap_or_default());
    let unsure = settings.unsure_subject_tag.as_deref().unwrap_or_default();
    to.named(1, 17, "unsure-subject-tag", unsure);
    to.named(2, 18, "syslog-tag", &formats.log_tag);
    to.bytes(1, "header-format", &formats.header);
    to.bytes(1, "terse-format", &formats.terse);
    to.bytes(1, "log-header-format", &formats.log_header);
    to.bytes(1, "log-update-format", &formats.log_update);
    let count = if settings.parameters.ham_cutoff < f64::EPSILON { 2 } else { 3 };
    for (name, fields) in
        [("spamicity-tags   ", &formats.tags), ("spamicity-formats", &formats.spamicity)]
    {
        let fields = fields[..count].join(&b", "[..]);
        to.line(1, &[name.as_bytes(), b" = ", &fields].concat());
    }
}

fn files(to: &mut Table, options: &Options, specs: &[ListSpec]) -> Result<(), Stop> {
    use std::os::unix::ffi::OsStrExt as _;
    if to.level < 2 {
        return Ok(());
    }
    to.wide(2, 18, "no-config-file", yes(options.without_config));
    let config = options.config_file.as_ref().map(|path| path.as_os_str().as_bytes());
    to.named(2, 18, "config-file", config.unwrap_or_default());
    to.named(2, 18, "user-config-file", &options.user_config);
    to.line(2, b"");
    let folder = options.folder.path()?;
    to.wide(2, 18, "bogofilter-dir", folder.as_os_str().as_bytes());
    for (index, spec) in specs.iter().enumerate() {
        let list = options.lists.get(index);
        let name = list.map_or(DEFAULT_LIST, |list| &list.name);
        let kind: &[u8] = if spec.is_ignored { b"i" } else { b"r" };
        let precedence = list.map_or(0, |list| list.precedence).to_string();
        let path = spec.path.as_os_str().as_bytes();
        let value = [kind, name, path, precedence.as_bytes()].join(&b","[..]);
        let mut line = format!("{:<18}   ", "wordlist").into_bytes();
        line.write_all(&value).expect("because memory takes everything");
        to.line(2, &line);
    }
    to.line(2, b"");
    to.wide(2, 18, "db-cachesize", options.cache_mb.to_string().as_bytes());
    Ok(())
}
