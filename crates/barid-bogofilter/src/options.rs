//! The options of bogofilter, from the command line and configuration files.
//!
//! The command line is read twice, with the configuration files in between, so that it takes
//! precedence; as in bogofilter, some options apply only in one of the passes.

use std::path::PathBuf;

use barid_bayes::WordEncoding;
use barid_vfs::OsVfs;
use barid_wordlist::{Class, oldest, today};

use crate::config::{self, integer, number, parts, text, yes};
use crate::dropin::{ListSpec, Quirks, Registration, Settings};
use crate::getopt::{Item, Known, Long};
use crate::output::{Stop, path_of, print, print_error, shown};
use crate::places::{Folder, Precedence, expanded};
use crate::{help, places};

/// The options of bogofilter.
pub(crate) const KNOWN: Known = Known {
    letters: ":-:bBc:Cd:DehHI:k:lL:m:MnNo:O:pPqQRsStTuUvVx:X:y:",
    longs: &[
        Long::flag("ham-true", "e"),
        Long::named("token-count"),
        Long::named("token-count-min"),
        Long::named("token-count-max"),
        Long::named("block-on-subnets"),
        Long::named("charset-default"),
        Long::named("user-config-file"),
        Long::named("replace-nonascii-characters"),
        Long::named("db-transaction"),
        Long::value("timestamp-date", "y"),
        Long::named("db-log-autoremove"),
        Long::flag("classify-files", "B"),
        Long::value("syslog-tag", "L"),
        Long::flag("classify-mbox", "M"),
        Long::flag("unregister-nonspam", "N"),
        Long::flag("dataframe", "R"),
        Long::flag("unregister-spam", "S"),
        Long::flag("fixed-terse-format", "T"),
        Long::flag("report-unsure", "U"),
        Long::flag("classify-stdin", "b"),
        Long::value("bogofilter-dir", "d"),
        Long::flag("nonspam-exits-zero", "e"),
        Long::flag("use-syslog", "l"),
        Long::flag("register-ham", "n"),
        Long::flag("passthrough", "p"),
        Long::flag("register-spam", "s"),
        Long::flag("update-as-scored", "u"),
        Long::value("debug-flags", "x"),
        Long::flag("debug-to-stdout", "D"),
        Long::flag("no-header-tags", "H"),
        Long::flag("query", "Q"),
        Long::value("db-cachesize", "k"),
        Long::named("ns-esf"),
        Long::named("sp-esf"),
        Long::named("ham-cutoff"),
        Long::named("header-format"),
        Long::named("log-header-format"),
        Long::named("log-update-format"),
        Long::named("min-dev"),
        Long::named("robs"),
        Long::named("robx"),
        Long::named("spam-cutoff"),
        Long::named("spam-header-name"),
        Long::named("spam-header-place"),
        Long::named("spam-subject-tag"),
        Long::named("spamicity-formats"),
        Long::named("spamicity-tags"),
        Long::named("stats-in-header"),
        Long::named("terse"),
        Long::named("terse-format"),
        Long::named("thresh-update"),
        Long::named("timestamp"),
        Long::named("unsure-subject-tag"),
        Long::named("wordlist"),
        Long::named("quirks"),
    ],
};

/// The kind of message input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bulk {
    /// One stream.
    Stream,
    /// Files and folders named on standard input (`-b`).
    NamesOnInput,
    /// Files and folders named on the command line (`-B`).
    NamesInArgs,
}

/// A pass over the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    First,
    Config(Precedence),
    Last,
}

/// The settings from command line and configuration files.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) settings: Settings,
    pub(crate) bulk: Bulk,
    pub(crate) many: bool,
    pub(crate) input: Option<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    pub(crate) query: u32,
    pub(crate) ham_is_true: bool,
    pub(crate) tells_on_output: bool,
    pub(crate) names: Vec<Vec<u8>>,
    pub(crate) folder: Folder,
    pub(crate) without_config: bool,
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) user_config: Vec<u8>,
    pub(crate) lists: Vec<WordListOption>,
    pub(crate) date: Option<u32>,
    pub(crate) timestamps: bool,
    /// Cache size named in the report of `-Q`; there is no cache.
    pub(crate) cache_mb: u32,
    run: Run,
    fixed_terse: u32,
}

/// The actions requested with `-s`, `-n`, `-S`, `-N` and `-u`.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    registration: Registration,
    updates: bool,
    /// `true` if none of them was given on the command line.
    is_normal: bool,
}

/// A word list named in a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WordListOption {
    pub(crate) is_ignored: bool,
    pub(crate) name: Vec<u8>,
    pub(crate) path: Vec<u8>,
    pub(crate) precedence: i64,
}

impl Options {
    /// Reads the command line and configuration files.
    pub(crate) fn read(args: &[Vec<u8>]) -> Result<Self, Stop> {
        let mut options = Self {
            settings: Settings::default(),
            bulk: Bulk::Stream,
            many: false,
            input: None,
            output: None,
            query: 0,
            ham_is_true: false,
            tells_on_output: false,
            names: Vec::new(),
            folder: Folder::default(),
            without_config: false,
            config_file: None,
            user_config: config::USER.to_vec(),
            lists: Vec::new(),
            date: None,
            timestamps: true,
            cache_mb: 4,
            run: Run::default(),
            fixed_terse: 0,
        };
        let mut parsed = KNOWN.parse(args);
        parsed.each(&mut |key, value| options.apply(key, value, Pass::First))?;
        // Unknown options were reported in the first pass.
        parsed.items.retain(|item| !matches!(item, Item::Unknown(_)));
        let Run { registration, updates, .. } = options.run;
        options.run.is_normal = registration == Registration::default() && !updates;
        options.configure()?;
        parsed.each(&mut |key, value| options.apply(key, value, Pass::Last))?;
        options.names = parsed.others;
        options.check()?;
        Ok(options)
    }

    fn configure(&mut self) -> Result<(), Stop> {
        if self.without_config {
            return Ok(());
        }
        // A file that cannot be read is skipped, as by bogofilter.
        let _ = self.config(config::SITE.into(), Precedence::SiteConfig)?;
        let path = expanded(&self.user_config);
        let _ = self.config(path, Precedence::UserConfig)?;
        Ok(())
    }

    /// Reads a configuration file. Returns `true` if all of it was understood, or the error of a
    /// file that cannot be read.
    fn config(
        &mut self,
        path: PathBuf,
        precedence: Precedence,
    ) -> Result<std::io::Result<bool>, Stop> {
        let mut is_understood = true;
        let is_read = config::read(&path, &KNOWN, &mut |(line, setting)| match setting {
            Some((key, value)) => self.apply(key, Some(value), Pass::Config(precedence)),
            None => {
                is_understood = false;
                print_error(format!("Error - bad parameter '{}'\n", shown(line)).as_bytes());
                Ok(())
            }
        })?;
        self.config_file = is_read.is_ok().then_some(path);
        Ok(is_read.map(|()| is_understood))
    }

    /// Applies an option with a short form; passes others to [`Options::apply_named`].
    fn apply(&mut self, key: &str, value: Option<&[u8]>, pass: Pass) -> Result<(), Stop> {
        let is_first = pass == Pass::First;
        let of_value = value.unwrap_or_default();
        match key {
            "b" => self.bulk = Bulk::NamesOnInput,
            "B" => self.bulk = Bulk::NamesInArgs,
            "c" | "config-file" if is_first => self.named_config(of_value)?,
            "C" if is_first => self.without_config = true,
            "D" => self.tells_on_output = true,
            "e" => self.ham_is_true = true,
            "h" => return Err(Stop::success(help::FILTER.to_owned())),
            "V" => return Err(Stop::success(help::version("bogofilter"))),
            "I" if is_first => self.input = Some(path_of(of_value).into()),
            "O" if is_first => self.output = Some(path_of(of_value).into()),
            "Q" if is_first => self.query += 1,
            "v" if is_first => self.settings.verbose += 1,
            "T" => {
                self.settings.is_terse = true;
                self.fixed_terse += u32::from(is_first);
            }
            "l" => self.settings.logs = true,
            "L" => {
                self.settings.logs = true;
                self.settings.formats.log_tag = of_value.to_vec();
            }
            "M" => self.many = true,
            "k" => self.cache_mb = whole(of_value),
            "p" => self.settings.passes_through = true,
            "q" => self.settings.is_quiet = true,
            "R" => self.settings.r_table = true,
            "t" => self.settings.is_terse = true,
            "H" => self.settings.tokens.header_prefixes = value.map_or(Ok(false), yes)?,
            "U" => self.settings.unsure_stats = value.map_or(Ok(true), yes)?,
            "u" => self.run.updates = true,
            "s" | "n" | "S" | "N" => self.register(key)?,
            "y" => self.date = Some(date(of_value)?),
            "d" if !is_first => {
                let precedence = match pass {
                    Pass::Config(precedence) => precedence,
                    _ => Precedence::Command,
                };
                self.folder.set(of_value, precedence);
            }
            "m" if !is_first => self.three(of_value, "-m"),
            "o" if !is_first => self.three(of_value, "-o"),
            // Options without a meaning here, or in this pass.
            "P" => return Err(Stop::error("Invalid option '-P'.")),
            "x" | "X" | "db-transaction" | "db-log-autoremove" | "c" | "config-file" | "C"
            | "I" | "O" | "Q" | "v" | "d" | "m" | "o" => {}
            _ => self.apply_named(key, of_value, is_first)?,
        }
        Ok(())
    }

    /// Applies an option that has only a long name.
    fn apply_named(&mut self, name: &str, value: &[u8], is_first: bool) -> Result<(), Stop> {
        if self.apply_number(name, value, is_first) {
            return Ok(());
        }
        let settings = &mut self.settings;
        let formats = &mut settings.formats;
        match name {
            "user-config-file" => self.user_config = text(value),
            "block-on-subnets" => settings.tokens.block_on_subnets = yes(value)?,
            "charset-default" => settings.tokens.charset_default = shown(&text(value)).into_owned(),
            "replace-nonascii-characters" => settings.tokens.replace_non_ascii = yes(value)?,
            "header-format" => formats.header = text(value),
            "terse-format" => formats.terse = text(value),
            "log-header-format" => formats.log_header = text(value),
            "log-update-format" => formats.log_update = text(value),
            "spamicity-formats" => set_parts(&mut formats.spamicity, value),
            "spamicity-tags" => set_parts(&mut formats.tags, value),
            "spam-header-name" => {
                settings.tokens.spam_header_name = shown(&text(value)).into_owned();
            }
            "spam-header-place" => settings.header_place = text(value),
            "spam-subject-tag" => settings.spam_subject_tag = Some(text(value)),
            "unsure-subject-tag" => settings.unsure_subject_tag = Some(text(value)),
            "stats-in-header" => settings.stats_in_header = yes(value)?,
            "terse" => settings.is_terse = yes(value)?,
            "timestamp" => self.timestamps = yes(value)?,
            "unicode" => {
                let is_unicode = yes(value)?;
                let encoding = if is_unicode { WordEncoding::Utf8 } else { WordEncoding::Raw };
                settings.encoding = Some(encoding);
            }
            "wordlist" => self.word_list(value),
            "quirks" => self.quirks(value)?,
            _ => return Err(Stop::error(format!("Invalid option '{name}'."))),
        }
        Ok(())
    }

    /// Applies a numeric option. Returns `true` if it was one; invalid numbers are ignored.
    fn apply_number(&mut self, name: &str, value: &[u8], is_first: bool) -> bool {
        let parameters = &mut self.settings.parameters;
        let tokens = &mut self.settings.tokens;
        let number_of = match name {
            "ns-esf" => &mut parameters.ns_esf,
            "sp-esf" => &mut parameters.sp_esf,
            "min-dev" => &mut parameters.min_dev,
            "robs" => &mut parameters.robs,
            "robx" => &mut parameters.robx,
            "spam-cutoff" => &mut parameters.spam_cutoff,
            "ham-cutoff" => &mut parameters.ham_cutoff,
            "thresh-update" => &mut self.settings.thresh_update,
            _ => {
                let count_of = match name {
                    "min-token-len" => &mut tokens.token_len_min,
                    "max-token-len" => &mut tokens.token_len_max,
                    "max-multi-token-len" => &mut tokens.multi_token_len_max,
                    "multi-token-count" => &mut tokens.multi_token_count,
                    "token-count" => &mut parameters.token_count,
                    "token-count-min" => &mut parameters.token_count_min,
                    "token-count-max" => &mut parameters.token_count_max,
                    _ => return false,
                };
                *count_of = whole(value) as usize;
                return true;
            }
        };
        if let Some(found) = number(value).filter(|_| !is_first || name == "thresh-update") {
            *number_of = found;
        }
        true
    }

    /// Reads a configuration file given on the command line, in place of the usual ones.
    fn named_config(&mut self, value: &[u8]) -> Result<(), Stop> {
        let path = path_of(value).to_path_buf();
        let understood = self.config(path, Precedence::UserConfig)?;
        let reason = match understood {
            Ok(true) => None,
            Ok(false) => Some("only part of it can be parsed".to_owned()),
            Err(error) => Some(places::reason(&error)),
        };
        if let Some(reason) = reason {
            return Err(Stop::error(format!("Cannot open {}: {reason}", shown(value))));
        }
        self.without_config = true;
        Ok(())
    }

    /// Parses up to three numbers separated by commas for `-m`, or two for `-o`.
    fn three(&mut self, value: &[u8], option: &str) {
        let parameters = &mut self.settings.parameters;
        let mut places: Vec<&mut f64> = match option {
            "-m" => vec![&mut parameters.min_dev, &mut parameters.robs, &mut parameters.robx],
            _ => vec![&mut parameters.spam_cutoff, &mut parameters.ham_cutoff],
        };
        for (place, part) in places.iter_mut().zip(value.split(|byte| *byte == b',')) {
            match number(part) {
                Some(number) => **place = number,
                None if part.is_empty() => {}
                None => {
                    let text =
                        format!("Cannot parse {option} option argument '{}'.\n", shown(value));
                    return print_error(text.as_bytes());
                }
            }
        }
    }

    fn register(&mut self, key: &str) -> Result<(), Stop> {
        let Registration { add, sub } = &mut self.run.registration;
        let (place, other, class) = match key {
            "s" => (add, sub, Class::Spam),
            "n" => (add, sub, Class::Ham),
            "S" => (sub, add, Class::Spam),
            _ => (sub, add, Class::Ham),
        };
        if place.is_some_and(|before| before != class) || *other == Some(class) {
            return Err(Stop::error("Error:  Invalid combination of options."));
        }
        *place = Some(class);
        Ok(())
    }

    /// Parses a word list: type, name, path and a number, separated by commas.
    fn word_list(&mut self, value: &[u8]) {
        let mut fields = Vec::new();
        let mut rest = value;
        for _ in 0..4 {
            let end = rest.iter().position(|byte| matches!(byte, b',' | b' ' | b'\t'));
            let (field, after) = match end {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &b""[..]),
            };
            fields.push(field);
            let blanks = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            rest = &after[blanks..];
        }
        let kind = fields[0].first().copied().unwrap_or(0);
        let is_ignored = match kind.to_ascii_uppercase() {
            b'R' => false,
            b'I' => true,
            _ => {
                let text = format!("Unknown wordlist type - '{}'\n", char::from(kind));
                return print_error(text.as_bytes());
            }
        };
        let list = WordListOption {
            is_ignored,
            name: fields[1].to_vec(),
            path: fields[2].to_vec(),
            precedence: integer(fields[3]),
        };
        if !self.lists.contains(&list) {
            let at = self.lists.partition_point(|other| other.precedence <= list.precedence);
            self.lists.insert(at, list);
        }
    }

    fn quirks(&mut self, value: &[u8]) -> Result<(), Stop> {
        let quirks = &mut self.settings.quirks;
        *quirks = Quirks::default();
        for part in parts(&text(value)) {
            match part {
                b"update-counts" => quirks.update_counts = true,
                b"word-counts" => quirks.word_counts = true,
                b"encoding-reset" => quirks.encoding_reset = true,
                b"all" => {
                    quirks.update_counts = true;
                    quirks.word_counts = true;
                    quirks.encoding_reset = true;
                }
                b"none" => {}
                other => return Err(Stop::error(format!("Unknown quirk '{}'.", shown(other)))),
            }
        }
        Ok(())
    }

    /// Rejects conflicting options, and derives settings from the others.
    fn check(&mut self) -> Result<(), Stop> {
        let Run { registration, updates, is_normal } = self.run;
        let registers = registration != Registration::default();
        let settings = &mut self.settings;
        if let Some(output) = self.output.as_ref().filter(|_| !settings.passes_through) {
            let shown = output.display();
            print_error(
                format!("Warning: Option -O {shown} has no effect without -p\n").as_bytes(),
            );
        }
        if registers && (is_normal || updates || settings.r_table) {
            let text =
                "Error:  Option '-u' may not be used with options '-s', '-n', '-S', or '-N'.";
            return Err(Stop::error(text));
        }
        if let Some(name) = self.names.first().filter(|_| self.bulk == Bulk::Stream) {
            let text = format!("Extra arguments given, first: {}. Aborting.", shown(name));
            return Err(Stop::error(text));
        }
        settings.registration = registers.then_some(registration);
        settings.updates = updates;
        if self.fixed_terse > 0 {
            settings.verbose = settings.verbose.max(1);
            settings.formats.terse = match self.fixed_terse {
                1 => b"%1.1c %-8.6g".to_vec(),
                2 => b"%0.16f".to_vec(),
                _ => return Err(Stop::error("Invalid '-T' usage")),
            };
        }
        let parameters = &settings.parameters;
        let (fix, min, max) =
            (parameters.token_count, parameters.token_count_min, parameters.token_count_max);
        if fix != 0 && fix < min || max != 0 && (max < min || max < fix) {
            return Err(Stop::error("Conflicting token count arguments given."));
        }
        Ok(())
    }

    /// Returns the lists in order of precedence.
    pub(crate) fn list_specs(&self) -> Result<Vec<ListSpec>, Stop> {
        let folder = self.folder.path()?;
        if places::ensure(&folder)? && self.settings.verbose > 0 {
            let text = format!("Created directory {} .\n", folder.display());
            match self.tells_on_output {
                true => print(text.as_bytes()).map_err(|error| Stop::error(error.to_string()))?,
                false => print_error(text.as_bytes()),
            }
        }
        if self.lists.is_empty() {
            return Ok(vec![ListSpec { path: folder.join("wordlist.db"), is_ignored: false }]);
        }
        let spec = |list: &WordListOption| {
            let is_path = list.path.contains(&b'/');
            let path = path_of(&list.path);
            let path = if is_path { path.to_path_buf() } else { folder.join(path) };
            ListSpec { path, is_ignored: list.is_ignored }
        };
        Ok(self.lists.iter().map(spec).collect())
    }
}

/// Parses an integer; negative values become 0.
pub(crate) fn whole(value: &[u8]) -> u32 {
    u32::try_from(integer(value).max(0)).unwrap_or(u32::MAX)
}

/// Parses a date as YYYYMMDD, or as a number of days ago.
pub(crate) fn date(value: &[u8]) -> Result<u32, Stop> {
    /// The least number that is a date.
    const FIRST: u32 = 19_990_000;
    match oldest(whole(value), today(&OsVfs)) {
        1..FIRST => Err(Stop::error("Date format for '-y' option is YYYYMMDD")),
        date => Ok(date),
    }
}

/// Sets as many fields as there are parts.
fn set_parts(fields: &mut [Vec<u8>; 3], value: &[u8]) {
    for (field, part) in fields.iter_mut().zip(parts(value)) {
        *field = part.to_vec();
    }
}
