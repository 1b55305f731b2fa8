//! Tests of `barid bogofilter` and `barid bogoutil` against bogofilter 1.2.5: the same arguments
//! and input must give the same output, exit code and word list.

mod answers;
mod lists;
mod mailboxes;
mod recipes;
mod set_up;
mod streams;
mod util;

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use barid_testkit::corpora;
use barid_testkit::peers::{Bogofilter, feed};

use crate::support::World;

/// The larger part of dev-spam.
const CORPUS: &str = "spamassassin";
/// The date of all registrations.
const DATE: &str = "20261122";

/// bogofilter and the drop-in, each with its own folder.
struct Pair {
    peer: Bogofilter,
    world: World,
}

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Theirs,
    Ours,
}

impl Side {
    fn folder(self) -> &'static str {
        match self {
            Self::Theirs => "theirs",
            Self::Ours => "ours",
        }
    }
}

impl Pair {
    fn new() -> Option<Self> {
        let pair = Self { peer: Bogofilter::new()?, world: World::new() };
        for side in [Side::Theirs, Side::Ours] {
            pair.world.create_dir(side.folder());
        }
        Some(pair)
    }

    /// Makes a pair trained with every `every`th message of dev-spam, or with some of a small
    /// corpus.
    fn trained(every: usize) -> Option<Self> {
        let pair = Self::new()?;
        let every = corpora::either(CORPUS, every, every.div_ceil(10));
        let (spam, ham) = spam_and_ham()?;
        for (flag, files) in [("-s", spam), ("-n", ham)] {
            let names = names(files.iter().step_by(every));
            pair.same(&["-C", "-d", "@", "-y", DATE, "-b", flag], &names);
        }
        Some(pair)
    }

    /// Returns the command of one side's program; `@` in arguments is the side's folder.
    fn command(&self, side: Side, name: &str, args: &[&str]) -> Command {
        let mut command = match (side, name) {
            (Side::Ours, _) => {
                let mut command = self.world.command();
                command.arg0(name);
                command
            }
            (Side::Theirs, "bogofilter") => self.peer.filter_command(),
            (Side::Theirs, "bogolexer") => self.peer.lexer_command(),
            (Side::Theirs, _) => self.peer.util_command(),
        };
        let env: Vec<_> = self.world.command().get_envs().map(own).collect();
        command.env_clear().envs(env).current_dir(self.world.path("."));
        command.args(args.iter().map(|arg| arg.replace('@', side.folder())));
        command
    }

    fn run(&self, side: Side, name: &str, args: &[&str], input: &[u8]) -> Output {
        feed(&mut self.command(side, name, args), input).unwrap()
    }

    /// Runs bogofilter on both sides, checks for the same exit code, output and messages, and
    /// returns the output.
    fn same(&self, args: &[&str], input: &[u8]) -> Output {
        self.same_of("bogofilter", args, input)
    }

    fn same_of(&self, name: &str, args: &[&str], input: &[u8]) -> Output {
        let theirs = self.run(Side::Theirs, name, args, input);
        let ours = self.run(Side::Ours, name, args, input);
        check_same(&theirs, &ours, &format!("{name} {args:?}"));
        theirs
    }

    /// Checks that both word lists have the same dump; returns the number of lines.
    fn same_lists(&self, what: &str) -> usize {
        let theirs = self.run(Side::Theirs, "bogoutil", &["-d", "@"], b"");
        let ours = self.run(Side::Ours, "bogoutil", &["-d", "@"], b"");
        check_same(&theirs, &ours, what);
        theirs.stdout.iter().filter(|byte| **byte == b'\n').count()
    }
}

fn own(
    (name, value): (&std::ffi::OsStr, Option<&std::ffi::OsStr>),
) -> (std::ffi::OsString, std::ffi::OsString) {
    (name.to_owned(), value.unwrap_or_default().to_owned())
}

/// Panics if two runs differ, at the first line that does. Folder names of the two sides count as
/// equal.
fn check_same(theirs: &Output, ours: &Output, what: &str) {
    let text = |bytes: &[u8]| {
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        text.replace("theirs/", "ours/").replace("'theirs'", "'ours'")
    };
    for (theirs, ours, stream) in
        [(&theirs.stderr, &ours.stderr, "stderr"), (&theirs.stdout, &ours.stdout, "stdout")]
    {
        if theirs == ours {
            continue;
        }
        let (theirs, ours) = (text(theirs), text(ours));
        let mut lines = theirs.split('\n').zip(ours.split('\n')).enumerate();
        let differ = lines.find(|(_, (theirs, ours))| theirs != ours);
        assert!(theirs == ours, "{what}: {stream} differs: {differ:?}");
    }
    assert_eq!(theirs.status.code(), ours.status.code(), "{what}: exit code");
}

/// Returns the messages of dev-spam.
fn spam_and_ham() -> Option<(Vec<String>, Vec<String>)> {
    let (mut spam, mut ham) = (Vec::new(), Vec::new());
    for corpus in [CORPUS, "csdmc2010"] {
        for file in corpora::files(corpus)? {
            let is_spam = file.components().any(|part| part.as_os_str() == "spam");
            let name = file.to_str().unwrap().to_owned();
            if is_spam { spam.push(name) } else { ham.push(name) }
        }
    }
    Some((spam, ham))
}

/// Returns the messages of dev-spam, dev-torture and dev-rich.
fn all_messages() -> Option<Vec<String>> {
    let (mut all, ham) = spam_and_ham()?;
    all.extend(ham);
    for corpus in ["dev-torture", "dev-rich"] {
        all.extend(corpora::files(corpus)?.iter().map(|file| file.to_str().unwrap().to_owned()));
    }
    Some(all)
}

/// Returns names in the form that `-b` reads.
fn names<'a>(files: impl IntoIterator<Item = &'a String>) -> Vec<u8> {
    files.into_iter().flat_map(|file| [file.as_bytes(), b"\n"].concat()).collect()
}

/// Returns messages in an mbox, whether or not they have From_ lines.
fn mbox(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut mbox = Vec::new();
    for message in messages {
        mbox.extend_from_slice(b"From a@b.example Tue Mar  5 12:22:10 2024\n");
        let own = message.strip_prefix(b"From ");
        let start = own.and_then(|rest| rest.iter().position(|byte| *byte == b'\n'));
        mbox.extend_from_slice(&message[start.map_or(0, |at| at + 6)..]);
        mbox.extend_from_slice(if message.ends_with(b"\n") { b"\n" } else { b"\n\n" });
    }
    mbox
}

/// Returns a fixed selection of messages from the corpora.
fn some(seed: u64, count: usize) -> Option<Vec<(String, Vec<u8>)>> {
    let all = all_messages()?;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut one = || {
        let name = all[random.usize(..all.len())].clone();
        let bytes = corpora::read(name.as_ref()).unwrap();
        (name, bytes)
    };
    Some((0..count).map(|_| one()).collect())
}
