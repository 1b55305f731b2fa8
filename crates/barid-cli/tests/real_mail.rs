//! Real mail end to end: from files through the scan and the cache to the output.

mod bytes;
mod dates;
mod formats;
mod overload;
mod peers;
mod stores;
mod torture;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use barid::Flag;
use barid_testkit::boxes::{MaildirWriter, MboxOptions, MboxVariant, MboxWriter};
use barid_testkit::corpora;
use barid_testkit::corpus::GeneratedMessage;
use serde_json::Value;

use crate::support::{Run, World};

/// A corpus as the Maildir `maildir` of the world, in the order of the corpus.
pub(crate) struct Mail {
    pub(crate) world: World,
    pub(crate) messages: Vec<GeneratedMessage>,
}

/// Arrival of the first message without a date; each further one arrives a minute later.
const FIRST_ARRIVAL: i64 = 1_100_000_000;

/// Mailboxes in use: made once and shared while any test needs them.
static MADE: Mutex<Vec<(&str, Weak<Mail>)>> = Mutex::new(Vec::new());

impl Mail {
    /// Returns the corpus with this name; a corpus of real mail must have at least `count_min`
    /// messages.
    pub(crate) fn of(corpus: &'static str, count_min: usize) -> Option<Arc<Self>> {
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = made.iter().filter(|(name, _)| *name == corpus);
        if let Some(mail) = known.filter_map(|(_, mail)| mail.upgrade()).next() {
            return Some(mail);
        }
        let files = corpora::files(corpus)?;
        let count_min = corpora::either(corpus, count_min, 100);
        assert!(files.len() >= count_min, "{corpus}: {} files", files.len());
        let messages = files.iter().enumerate().map(|(number, path)| message(number, path));
        let mail = Self { world: World::new(), messages: messages.collect() };
        mail.write_maildir(&mail.world, mail.messages.len());
        let mail = Arc::new(mail);
        made.push((corpus, Arc::downgrade(&mail)));
        Some(mail)
    }

    /// Writes the first messages as a Maildir in another world.
    pub(crate) fn write_part(&self, world: &World, count: usize) -> String {
        self.write_maildir(world, count);
        text_of(world.path("maildir"))
    }

    fn write_maildir(&self, world: &World, count: usize) {
        let writer = MaildirWriter::create(&world.path("maildir")).unwrap();
        for (number, message) in self.messages.iter().take(count).enumerate() {
            let mut name = format!("{}.M{number}P1.host", 1_000_000_000 + number);
            if number % 2 == 0 {
                name.push_str(&format!(",S={}", message.bytes.len()));
            }
            writer.deliver(&name, message).unwrap();
        }
    }

    pub(crate) fn maildir(&self) -> String {
        text_of(self.world.path("maildir"))
    }

    /// Writes the messages as an mbox.
    pub(crate) fn write_mbox(&self, path: PathBuf, variant: MboxVariant) -> String {
        let mut writer = MboxWriter::create(&path, MboxOptions::new(variant)).unwrap();
        self.messages.iter().for_each(|message| writer.append(message).unwrap());
        writer.finish().unwrap();
        text_of(path)
    }

    /// Runs the program, which must succeed without output on standard error.
    pub(crate) fn run(&self, args: &[&str]) -> Vec<u8> {
        let run = run(&self.world, args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
        run.stdout
    }
}

/// Runs the program with the time zone UTC.
pub(crate) fn run(world: &World, args: &[&str]) -> Run {
    let output = world.command().env("TZ", "UTC").args(args).output().unwrap();
    let code = output.status.code();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let code = code.unwrap_or_else(|| panic!("{args:?}: {:?} {stderr}", output.status));
    Run { code, stdout: output.stdout, stderr }
}

/// Returns lines of `ls --json` in mailbox order.
pub(crate) fn in_mailbox_order(mut lines: Vec<Value>) -> Vec<Value> {
    lines.sort_by_key(|line| line["seq"].as_u64());
    lines
}

fn message(number: usize, path: &std::path::Path) -> GeneratedMessage {
    let bytes = corpora::read(path).unwrap();
    let date = barid::message::HeaderFields::scan(&bytes).date;
    let date = date.and_then(barid::message::parse_date).map(|date| date.unix_seconds);
    let date = date.filter(|date| (1..1 << 31).contains(date));
    let date = date.unwrap_or(FIRST_ARRIVAL + 60 * number as i64);
    let flags = [(3, Flag::Seen), (7, Flag::Flagged), (11, Flag::Answered)];
    let flags = flags.into_iter().filter(|(step, _)| number.is_multiple_of(*step));
    let flags = flags.map(|(_, flag)| flag).collect();
    GeneratedMessage { bytes, date, flags, sender: String::new() }
}

fn text_of(path: PathBuf) -> String {
    path.into_os_string().into_string().unwrap()
}

/// The results of a comparison.
#[derive(Default)]
pub(crate) struct Tally {
    title: String,
    compared: usize,
    equal: usize,
    explained: BTreeMap<String, usize>,
    different: Vec<String>,
}

impl Tally {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    pub(crate) fn equal(&mut self) {
        self.compared += 1;
        self.equal += 1;
    }

    pub(crate) fn explained(&mut self, cause: impl Into<String>) {
        self.compared += 1;
        *self.explained.entry(cause.into()).or_default() += 1;
    }

    pub(crate) fn different(&mut self, what: impl Into<String>) {
        self.compared += 1;
        self.different.push(what.into());
    }

    /// Returns the number of differences with a cause.
    pub(crate) fn count(&self, cause: &str) -> usize {
        self.explained.get(cause).copied().unwrap_or_default()
    }

    /// Prints the figures; fails if a difference is unexplained, or fewer than `compared_min` were
    /// compared.
    #[track_caller]
    #[expect(clippy::print_stdout, reason = "figures of a test")]
    pub(crate) fn report(&self, compared_min: usize) {
        let Self { title, compared, equal, explained, different } = self;
        let explained_count: usize = explained.values().sum();
        println!("{title}: compared {compared}, equal {equal}, explained {explained_count}");
        explained.iter().for_each(|(cause, count)| println!("  {count:6} {cause}"));
        let count = different.len();
        let some: Vec<&str> = different.iter().take(20).map(String::as_str).collect();
        assert!(count == 0, "{title}: {count} unexplained\n{}", some.join("\n"));
        assert!(*compared >= compared_min, "{title}: only {compared} compared");
    }
}
