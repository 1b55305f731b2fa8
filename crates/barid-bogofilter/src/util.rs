//! The program `bogoutil`.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use barid_vfs::{FileType, OsVfs, Stream, Vfs};
use barid_wordlist::{
    AnyList, Created, Load, Maintain, Native, dump, load, oldest, open_list, robx, store_robx,
    today,
};

use crate::config::{self, integer, yes};
use crate::dropin::{WordTable, histogram};
use crate::getopt::{Known, Long};
use crate::help;
use crate::input::{buffered, stdin};
use crate::options::{date, whole};
use crate::output::{Stop, path_of, print, print_error, shown};
use crate::places::{expanded, reason};

mod tend;

/// The options of bogoutil.
const KNOWN: Known = Known {
    letters: ":a:c:Cd:DhH:I:k:l:m:nO:p:r:R:s:u:vVw:x:X:y:",
    longs: &[
        Long::named("db-transaction"),
        Long::value("timestamp-date", "y"),
        Long::named("db-log-autoremove"),
        Long::named("db-prune"),
        Long::named("db-checkpoint"),
        Long::named("db-list-logfiles"),
        Long::named("db-print-leafpage-count"),
        Long::named("db-print-pagesize"),
        Long::named("db-recover"),
        Long::named("db-recover-harder"),
        Long::named("db-remove-environment"),
        Long::named("db-verify"),
        Long::named("quirks"),
    ],
};

/// Longest line of words in bytes.
const WORD_LINE_LEN: u64 = 511;

/// The requested task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Dump,
    Load,
    Tend,
    Upgrade,
    Words {
        with_probability: bool,
    },
    Histogram,
    Robx {
        is_kept: bool,
    },
    Verify,
    /// Print something that only Berkeley DB knows.
    Unknown,
    /// Do something that only environments of Berkeley DB need.
    Nothing,
}

/// The settings from arguments and configuration files.
#[derive(Debug)]
struct UtilSettings {
    tasks: Vec<(Task, PathBuf)>,
    what: Maintain,
    /// `Some(true)` to convert the list to UTF-8, `Some(false)` to convert it from UTF-8.
    is_unicode: Option<bool>,
    date: u32,
    token_len_max: u32,
    multi_token_count: u32,
    verbose: u32,
    input: Option<PathBuf>,
    output: Option<PathBuf>,
    without_config: bool,
    tells_on_output: bool,
    resets_encoding: bool,
}

/// Runs the program and returns its exit code.
pub(crate) fn run(args: &[Vec<u8>]) -> Result<u8, Stop> {
    let mut asked = UtilSettings::new(today(&OsVfs));
    let parsed = KNOWN.parse(args);
    parsed.each(&mut |key, value| asked.apply(key, value.unwrap_or_default()))?;
    let [(task, path)] = &asked.tasks[..] else {
        return Err(Stop::error(
            "bogoutil: Exactly one of the file or directory commands must be present.",
        ));
    };
    let (task, path) = (*task, path.clone());
    asked.configure()?;
    if !matches!(task, Task::Words { .. } | Task::Nothing) && !parsed.others.is_empty() {
        return Err(Stop::error("Missing or extraneous argument."));
    }
    let path = place(&path, task == Task::Load)?;
    asked.run(task, &path, &parsed.others)
}

/// Returns the list in a folder, or the file itself.
fn place(path: &Path, may_be_new: bool) -> Result<PathBuf, Stop> {
    let exists = |path: &Path| OsVfs.metadata(path).is_ok();
    let list = match OsVfs.metadata(path) {
        Ok(metadata) if metadata.file_type == FileType::Dir => {
            let [own, tokyo] = ["wordlist.db", "wordlist.tc"].map(|name| path.join(name));
            if !exists(&own) && exists(&tokyo) { tokyo } else { own }
        }
        _ => path.to_owned(),
    };
    match may_be_new || exists(&list) {
        true => Ok(list),
        false => Err(Stop::error(format!("Can't open wordlist '{}'", list.display()))),
    }
}

impl UtilSettings {
    /// Creates the settings without any options.
    fn new(date: u32) -> Self {
        Self {
            tasks: Vec::new(),
            what: Maintain::default(),
            is_unicode: None,
            date,
            token_len_max: 0,
            multi_token_count: 1,
            verbose: 0,
            input: None,
            output: None,
            without_config: false,
            tells_on_output: false,
            resets_encoding: false,
        }
    }

    fn apply(&mut self, key: &str, value: &[u8]) -> Result<(), Stop> {
        match key {
            "a" => self.what.date = Some(oldest(whole(value), today(&OsVfs))).filter(|it| *it > 0),
            "c" => self.what.count = Some(whole(value)).filter(|count| *count > 0),
            "s" => self.what.len = lens(value)?,
            "n" => self.what.replace_non_ascii ^= true,
            "C" => self.without_config = true,
            "config-file" => {
                self.without_config = true;
                self.config(path_of(value))?;
            }
            "D" => self.tells_on_output = true,
            "I" => self.input = Some(path_of(value).into()),
            "O" => self.output = Some(path_of(value).into()),
            "v" => self.verbose += 1,
            "h" => return Err(Stop::success(help::UTIL.to_owned())),
            "V" => return Err(Stop::success(help::version("bogoutil"))),
            "y" => self.date = date(value)?,
            "unicode" => self.is_unicode = Some(yes(value)?),
            "max-token-len" => self.token_len_max = whole(value),
            "multi-token-count" => self.multi_token_count = whole(value),
            "quirks" => {
                let quirks = [&b"encoding-reset"[..], b"all"];
                self.resets_encoding = config::parts(value).any(|part| quirks.contains(&part));
            }
            "k"
            | "x"
            | "X"
            | "min-token-len"
            | "max-multi-token-len"
            | "db-transaction"
            | "db-log-autoremove" => {}
            _ => {
                let task = match key {
                    "d" => Task::Dump,
                    "l" => Task::Load,
                    "m" => Task::Tend,
                    "u" => Task::Upgrade,
                    "w" => Task::Words { with_probability: false },
                    "p" => Task::Words { with_probability: true },
                    "H" => Task::Histogram,
                    "r" => Task::Robx { is_kept: false },
                    "R" => Task::Robx { is_kept: true },
                    "db-verify" => Task::Verify,
                    "db-print-leafpage-count" | "db-print-pagesize" => Task::Unknown,
                    _ => Task::Nothing,
                };
                self.tasks.push((task, path_of(value).into()));
            }
        }
        Ok(())
    }

    fn configure(&mut self) -> Result<(), Stop> {
        if self.without_config {
            return Ok(());
        }
        self.config(Path::new(config::SITE))?;
        self.config(&expanded(config::USER))
    }

    /// Reads the settings for word lists from a configuration file.
    fn config(&mut self, path: &Path) -> Result<(), Stop> {
        // A file that cannot be read is skipped, as by bogofilter.
        let _ = config::read(path, &KNOWN, &mut |(_, setting)| match setting {
            Some((key, value)) if !key.starts_with("db-") => self.apply(key, value),
            _ => Ok(()),
        })?;
        Ok(())
    }

    fn run(&self, task: Task, path: &Path, words: &[Vec<u8>]) -> Result<u8, Stop> {
        let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
        match task {
            Task::Unknown => return exit_code(print(b"UNKNOWN\n")),
            Task::Nothing => return Ok(0),
            Task::Load => return self.load(&vfs, path),
            _ => {}
        }
        let mut list = open_list(&vfs, path)?;
        let mut text = Vec::new();
        match task {
            Task::Dump => return self.dump(&mut list),
            Task::Words { with_probability } => {
                return self.words(&mut list, with_probability, words);
            }
            Task::Histogram => histogram(&mut *list, self.verbose, &mut text)?,
            Task::Robx { is_kept } => {
                let totals = list.totals()?;
                if totals.spam == 0 || totals.ham == 0 {
                    return Err(Stop::error(
                        "\nRemember to register some spam and ham messages before you\n\
                         use bogofilter to evaluate mail for its probable spam status!",
                    ));
                }
                let found = match is_kept {
                    true => store_robx(&mut *list, self.date)?,
                    false => robx(&mut *list)?,
                };
                let Some(found) = found else { return Err(Stop::error("")) };
                if !is_kept {
                    text = format!("{:.6}\n", found.value).into_bytes();
                }
            }
            Task::Verify => {
                list.scan(&mut |_, _| true)?;
                if let Some(damage) = list.damage().first() {
                    let (path, at) = (damage.path.display(), damage.offset);
                    return Err(Stop::error(format!("{path}: {} at byte {at}", damage.what)));
                }
            }
            _ => self.tend(&mut list, task == Task::Upgrade)?,
        }
        exit_code(print(&text))
    }

    fn dump(&self, list: &mut AnyList) -> Result<u8, Stop> {
        let mut out = self.out()?;
        let count = dump(&mut **list, &mut out, Some(&self.what))?;
        self.report(&format!("{count} tokens dumped\n"))
    }

    fn load(&self, vfs: &Arc<dyn Vfs>, path: &Path) -> Result<u8, Stop> {
        let mut list: AnyList = match open_list(vfs, path) {
            Err(barid_wordlist::Error::NotFound { .. }) => {
                let created = Created { date: 0, encoding: None };
                Box::new(Native::open_or_create(Arc::clone(vfs), path, &created)?)
            }
            opened => opened?,
        };
        let token_len_max = match (self.token_len_max, self.multi_token_count) {
            (0, _) => None,
            (len, 1) => Some(len),
            (len, count) => Some(len.saturating_add(1).saturating_mul(count).saturating_add(5)),
        };
        let how = Load {
            today: self.date,
            token_len_max: token_len_max.map(|len| len as usize),
            without: self.what,
            all_keys: false,
        };
        let loaded = match self.input()? {
            Some(mut stream) => load(&mut *list, &mut stream, &how),
            None => load(&mut *list, &mut stdin(), &how),
        };
        let loaded = loaded.map_err(|error| {
            Stop::error(format!("bogoutil: {error}\nread or write error, aborting."))
        })?;
        self.report(&format!("{} tokens loaded\n", loaded.tokens))
    }

    fn words(
        &self,
        list: &mut AnyList,
        with_probability: bool,
        words: &[Vec<u8>],
    ) -> Result<u8, Stop> {
        let mut out = self.out()?;
        let mut text = Vec::new();
        let table = WordTable::new(&mut **list, with_probability, &mut text)?;
        let written = |out: &mut dyn Write, text: &mut Vec<u8>| {
            let done = out.write_all(text).and_then(|()| out.flush());
            text.clear();
            done.map_err(|error| Stop::error(reason(&error)))
        };
        for word in words {
            table.add(&mut **list, word, &mut text)?;
        }
        written(&mut *out, &mut text)?;
        if !words.is_empty() {
            return Ok(0);
        }
        let mut lines = stdin();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines.by_ref().take(WORD_LINE_LEN).read_until(b'\n', &mut line);
            read.map_err(|error| Stop::error(reason(&error)))?;
            let Some(word) = line.strip_suffix(b"\n") else {
                if !line.is_empty() {
                    let line = shown(&line);
                    let text = format!(
                        "bogoutil: Unexpected input [{line}]. Does not end with newline or line too long.\n"
                    );
                    print_error(text.as_bytes());
                }
                return Ok(0);
            };
            table.add(&mut **list, word, &mut text)?;
            written(&mut *out, &mut text)?;
        }
    }

    /// Opens the file given with `-I`.
    fn input(&self) -> Result<Option<BufReader<Stream>>, Stop> {
        let open = |path: &PathBuf| match OsVfs.open_input(path) {
            Ok(stream) => Ok(buffered(stream)),
            Err(_) => Err(Stop::error(format!("Can't read file '{}'", path.display()))),
        };
        self.input.as_ref().map(open).transpose()
    }

    /// Opens the file given with `-O`, or standard output.
    fn out(&self) -> Result<Box<dyn Write>, Stop> {
        let Some(path) = &self.output else { return Ok(Box::new(std::io::stdout().lock())) };
        match OsVfs.open_output(path, 0o666) {
            Ok(stream) => Ok(Box::new(stream)),
            Err(_) => Err(Stop::error(format!("Can't write file '{}'", path.display()))),
        }
    }

    /// Prints a report if the options ask for it.
    fn report(&self, text: &str) -> Result<u8, Stop> {
        match (self.verbose, self.tells_on_output) {
            (0, _) => Ok(0),
            (_, true) => exit_code(print(text.as_bytes())),
            (_, false) => {
                print_error(text.as_bytes());
                Ok(0)
            }
        }
    }
}

fn exit_code(done: std::io::Result<()>) -> Result<u8, Stop> {
    done.map(|()| 0).map_err(|error| Stop::error(reason(&error)))
}

/// Parses the two numbers of `-s`.
fn lens(value: &[u8]) -> Result<Option<(usize, usize)>, Stop> {
    let numbers = value.split(|byte| *byte == b',').map(integer);
    let numbers: Vec<usize> = numbers.filter_map(|number| usize::try_from(number).ok()).collect();
    match numbers[..] {
        [0, 0] => Ok(None),
        [min, max] => Ok(Some((min, max))),
        _ => Err(Stop::error(format!("syntax error in argument \"{}\" of -s", shown(value)))),
    }
}
