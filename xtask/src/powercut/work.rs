//! The changes to the mailbox, and its expected contents after each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use barid_testkit::boxes::{MboxOptions, MboxVariant, read_mbox};
use barid_testkit::corpus::{Corpus, GeneratedMessage, Profile};
use barid_testkit::disk as files;

use super::image::{Event, Image};
use super::mount::Mounted;

/// Size in bytes of a message that is large enough to be collapsed.
const LARGE_LEN: usize = 300 << 10;
/// Number of messages appended at a time.
const APPEND_LEN: u64 = 20;

/// A mounted file system with a mailbox, its cache and its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World<'a> {
    pub(crate) root: &'a Path,
    pub(crate) barid: &'a Path,
}

/// A message that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The hash of its bytes.
    pub(crate) hash: u64,
    pub(crate) uid: u32,
    /// The flags by barid's names, without \Recent, and keywords.
    pub(crate) flags: BTreeSet<String>,
}

/// All messages, in mailbox order.
pub(crate) type Model = Vec<Message>;

/// An acknowledged change.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) what: String,
    /// Length of the log when the change began.
    pub(crate) began: usize,
    /// Length of the log when the change was acknowledged.
    pub(crate) ended: usize,
    /// The contents of the mailbox after the change.
    pub(crate) after: Model,
}

/// The log of all writes, and the changes.
#[derive(Debug)]
pub(crate) struct Record {
    /// The disk before the log.
    pub(crate) before: Image,
    pub(crate) log: Vec<Event>,
    /// Position in the log where the mailbox is complete and the changes begin.
    pub(crate) work_began: usize,
    /// The contents of the mailbox at that position.
    pub(crate) at_first: Model,
    pub(crate) acknowledged: Vec<Acknowledged>,
}

/// A change: the words of the command, and its effect on a mailbox.
struct Change {
    words: Vec<String>,
    apply: Box<dyn Fn(&mut Model)>,
}

impl World<'_> {
    pub(crate) fn mailbox(&self) -> PathBuf {
        self.root.join("mail/box")
    }

    /// Returns the program with cache and state in the same file system.
    pub(crate) fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(self.barid);
        command.arg("--cache-dir").arg(self.root.join("cache"));
        command.arg("--state-dir").arg(self.root.join("state"));
        command.args(words).stdin(Stdio::null());
        command
    }

    /// Runs the program and returns its output.
    pub(crate) fn run(&self, words: &[String]) -> Result<String> {
        let output = self.command(words).output().context("barid")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            let line: String = words.join(" ").chars().take(200).collect();
            bail!("barid {line}: {}: {}", output.status, text(&output.stderr));
        }
        Ok(text(&output.stdout))
    }
}

/// Makes a mailbox, and changes it. The log in the result is still empty.
pub(crate) fn record(
    world: &World<'_>,
    mounted: &Mounted<'_>,
    messages: u64,
    seed: u64,
) -> Result<Record> {
    let corpus = Corpus::with_profile(seed, messages, Profile::Classic);
    let mailbox = world.mailbox();
    files::create_dir_all(&world.root.join("mail"))?;
    make(&corpus, &mailbox)?;
    let mut model = Model::new();
    read_mbox(&mailbox, |message| {
        let uid = model.len() as u32 + 1;
        model.push(Message { hash: message.hash, uid, flags: BTreeSet::new() });
    })?;
    let appended = batch(&corpus, world.root)?;
    files::sync_file_system(world.root)?;
    let (work_began, at_first) = (mounted.position(), model.clone());
    let mut acknowledged = Vec::new();
    for change in changes(world, messages as u32, &appended) {
        let began = mounted.position();
        world.run(&change.words)?;
        let ended = mounted.position();
        (change.apply)(&mut model);
        let what: String = change.words.join(" ").chars().take(80).collect();
        acknowledged.push(Acknowledged { what, began, ended, after: model.clone() });
    }
    Ok(Record { before: Image::new(0), log: Vec::new(), work_began, at_first, acknowledged })
}

/// Makes an mbox without status headers; the first and the sixth message are large.
fn make(corpus: &Corpus, mailbox: &Path) -> Result<()> {
    let options = MboxOptions { variant: MboxVariant::Mboxo, status: false, crlf: false };
    let mut text = Vec::new();
    for number in 0..corpus.len() {
        let mut message: GeneratedMessage = corpus.message(number);
        if number % 5 == 0 && number < 10 {
            let line = format!("A line of the large message {number}.\n");
            message.bytes.extend(line.bytes().cycle().take(LARGE_LEN.next_multiple_of(line.len())));
        }
        options.render(&message, &mut text);
    }
    files::write(mailbox, &text).context("the mailbox")
}

/// Writes messages to append into files, and returns these with the messages' hashes.
fn batch(corpus: &Corpus, root: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let options = MboxOptions { variant: MboxVariant::Mboxo, status: false, crlf: false };
    let folder = root.join("new");
    files::create_dir_all(&folder)?;
    let mut batch = Vec::new();
    for number in corpus.len()..corpus.len() + 2 * APPEND_LEN {
        let (path, mbox) = (folder.join(number.to_string()), folder.join("mbox"));
        let message = corpus.message(number);
        files::write(&path, &message.bytes)?;
        let mut text = Vec::new();
        options.render(&message, &mut text);
        files::write(&mbox, &text)?;
        let mut hash = None;
        read_mbox(&mbox, |message| hash = Some(message.hash))?;
        files::remove_file(&mbox)?;
        batch.push((path, hash.context("a message has a hash")?));
    }
    Ok(batch)
}

/// Returns the changes, in their order.
fn changes(world: &World<'_>, count: u32, batch: &[(PathBuf, u64)]) -> Vec<Change> {
    let mailbox = world.mailbox().display().to_string();
    let flag = |uids: &str, flag: &str, is_now: bool| Change {
        words: {
            let mut words = words(&["flag", &mailbox, uids, &format!("+{flag}")]);
            words.extend(is_now.then(|| "--write-through".to_owned()));
            words
        },
        apply: flagging(uids, flag),
    };
    let sync = || Change { words: words(&["sync", &mailbox]), apply: Box::new(|_| {}) };
    let expunge =
        |uids: &str| Change { words: words(&["expunge", &mailbox, uids]), apply: expunging(uids) };
    let (one, two) = batch.split_at(batch.len() / 2);
    let every_seventh = (50..count).step_by(7).map(|uid| uid.to_string());
    let every_seventh = every_seventh.collect::<Vec<_>>().join(",");
    let next = count + 1;
    vec![
        sync(),
        flag("17", "flagged", true),
        flag("20:40", "answered", false),
        flag("all", "seen", true),
        expunge("1"),
        flag("100,300", "a-keyword-that-needs-a-lot-of-room-in-a-header", true),
        expunge("6"),
        append(&mailbox, one, next),
        flag("2:400", "another-keyword-that-needs-more-than-there-is", false),
        sync(),
        expunge("3"),
        expunge(&every_seventh),
        append(&mailbox, two, next + one.len() as u32),
        flag("2:30", "draft", false),
        flag("7", "flagged", true),
    ]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns `true` if a list of UIDs contains a UID.
fn names(uids: &str, uid: u32) -> bool {
    uids == "all"
        || uids.split(',').any(|range| {
            let (first, last) = range.split_once(':').unwrap_or((range, range));
            let parse = |text: &str| text.parse::<u32>().unwrap_or(0);
            (parse(first)..=parse(last)).contains(&uid)
        })
}

fn flagging(uids: &str, flag: &str) -> Box<dyn Fn(&mut Model)> {
    const SYSTEM: [&str; 5] = ["Seen", "Answered", "Flagged", "Deleted", "Draft"];
    let system = SYSTEM.into_iter().find(|name| name.eq_ignore_ascii_case(flag));
    let name = system.map_or_else(|| flag.to_owned(), |name| format!("\\{name}"));
    let uids = uids.to_owned();
    Box::new(move |model| {
        for message in model.iter_mut().filter(|message| names(&uids, message.uid)) {
            message.flags.insert(name.clone());
        }
    })
}

fn expunging(uids: &str) -> Box<dyn Fn(&mut Model)> {
    let uids = uids.to_owned();
    Box::new(move |model| model.retain(|message| !names(&uids, message.uid)))
}

fn append(mailbox: &str, batch: &[(PathBuf, u64)], next: u32) -> Change {
    let mut words = words(&["append", mailbox]);
    words.extend(batch.iter().map(|(path, _)| path.display().to_string()));
    let hashes: Vec<u64> = batch.iter().map(|(_, hash)| *hash).collect();
    Change {
        words,
        apply: Box::new(move |model| {
            let message =
                |(hash, uid): (&u64, u32)| Message { hash: *hash, uid, flags: BTreeSet::new() };
            model.extend(hashes.iter().zip(next..).map(message));
        }),
    }
}
