//! Archives on a real file system, made by `git fast-import`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use barid_formats::{FormatName, MailboxSpec, open};
use barid_mailbox::Storage;
use barid_mailbox_conformance::{Fixture, state_ledger};
use barid_state::Ledger;
use barid_testkit::peers::{feed, program};
use barid_testkit::{Scratch, disk, skip_or_fail};
use barid_vfs::{OsVfs, Vfs};

/// Time of the first commit, in seconds since 1970.
pub(crate) const EPOCH_SECONDS: i64 = 1_500_000_000;

/// Something that a commit does.
#[derive(Clone, Debug)]
pub(crate) enum ArchiveCommit {
    Add(Vec<u8>),
    Delete(Vec<u8>),
    /// A commit that leaves its tree alone.
    Nothing,
    /// A commit of a file that is not a message.
    Other,
}

/// An archive, and the folder of its ledger.
pub(crate) struct GitArchive {
    scratch: Scratch,
    git: PathBuf,
    pub(crate) path: PathBuf,
}

impl GitArchive {
    /// Makes an archive without epochs; `None` without git.
    pub(crate) fn new() -> Option<Self> {
        let Some(git) = program("git") else {
            skip_or_fail("git");
            return None;
        };
        let scratch = Scratch::new("inbox").unwrap();
        let path = scratch.path().join("archive");
        disk::create_dir_all(&path.join("git")).unwrap();
        disk::create_dir(&scratch.path().join("state")).unwrap();
        Some(Self { scratch, git, path })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn epoch(&self, number: u32) -> PathBuf {
        self.path.join(format!("git/{number}.git"))
    }

    /// Runs git in a folder; returns its output.
    pub(crate) fn git(&self, folder: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut command = Command::new(&self.git);
        command
            .args(["-c", "gc.auto=0", "-c", "fetch.unpackLimit=1"])
            .args(["-c", "protocol.file.allow=always"])
            .args(args)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.scratch.path())
            .env("GIT_CONFIG_NOSYSTEM", "1");
        output_of(&mut command, input)
    }

    /// Makes an epoch without commits.
    pub(crate) fn init(&self, number: u32) {
        let path = self.epoch(number);
        let args = ["init", "-q", "--bare", "-b", "master", path.to_str().unwrap()];
        self.git(self.scratch.path(), &args, b"");
    }

    /// Adds commits to an epoch: loose objects if `is_loose`, and otherwise a pack.
    pub(crate) fn commit(&self, number: u32, steps: &[ArchiveCommit], is_loose: bool) {
        let path = self.epoch(number);
        let first = self.count(number);
        let parent = (first > 0).then_some("refs/heads/master^0");
        self.import(&path, steps, (first, parent), is_loose);
    }

    /// Replaces the history of an epoch, as a purge does.
    pub(crate) fn rewrite(&self, number: u32, steps: &[ArchiveCommit]) {
        let path = self.epoch(number);
        self.import(&path, steps, (0, None), false);
        self.git(&path, &["-c", "gc.reflogExpire=now", "gc", "--prune=all", "--quiet"], b"");
    }

    fn import(
        &self,
        path: &Path,
        steps: &[ArchiveCommit],
        (first, parent): (i64, Option<&str>),
        is_loose: bool,
    ) {
        let mut stream: Vec<u8> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let seconds = EPOCH_SECONDS + first + at as i64;
            let mut head = String::new();
            write!(
                head,
                "commit refs/heads/new\nmark :{}\nauthor A <a@example.org> 1 +0000\n\
                 committer A <a@example.org> {seconds} +0130\ndata 2\nx\n",
                at + 1
            )
            .unwrap();
            if at == 0
                && let Some(parent) = parent
            {
                writeln!(head, "from {parent}").unwrap();
            }
            stream.extend_from_slice(head.as_bytes());
            let mut file = |name: &str, text: &[u8]| {
                let head = format!("deleteall\nM 100644 inline {name}\ndata {}\n", text.len());
                stream.extend_from_slice(head.as_bytes());
                stream.extend_from_slice(text);
                stream.push(b'\n');
            };
            match step {
                ArchiveCommit::Add(text) => file("m", text),
                ArchiveCommit::Delete(text) => file("d", text),
                ArchiveCommit::Nothing => {}
                ArchiveCommit::Other => file("x", b"Subject: x\n\nx\n"),
            }
            stream.push(b'\n');
        }
        let limit =
            if is_loose { "fastimport.unpackLimit=1000000" } else { "fastimport.unpackLimit=0" };
        self.git(path, &["-c", limit, "fast-import", "--quiet", "--force"], &stream);
        self.git(path, &["update-ref", "refs/heads/master", "refs/heads/new"], b"");
        self.git(path, &["update-ref", "-d", "refs/heads/new"], b"");
    }

    /// Returns the number of commits of an epoch.
    fn count(&self, number: u32) -> i64 {
        let counted = self.git(&self.epoch(number), &["rev-list", "--all", "--count"], b"");
        String::from_utf8_lossy(&counted).trim().parse().unwrap()
    }

    /// Returns the name of a blob, which need not be in a repository.
    pub(crate) fn blob_name(&self, text: &[u8]) -> String {
        let name = self.git(self.scratch.path(), &["hash-object", "--stdin"], text);
        String::from_utf8_lossy(&name).trim().to_owned()
    }

    /// Returns a fixture that opens another path with a ledger of its own.
    pub(crate) fn at(&self, path: PathBuf) -> OpenedArchive {
        let state = self
            .scratch
            .path()
            .join(format!("state-{}", self.blob_name(path.to_str().unwrap().as_bytes())));
        drop(disk::create_dir(&state));
        OpenedArchive { path, state }
    }
}

/// Runs a program, which must succeed; returns its output.
pub(crate) fn output_of(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let output = feed(command, input).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    output.stdout
}

/// A path opened as an archive, with a folder for its ledger.
pub(crate) struct OpenedArchive {
    pub(crate) path: PathBuf,
    state: PathBuf,
}

impl Fixture for OpenedArchive {
    fn open(&self) -> Box<dyn Storage> {
        open_archive(&self.path)
    }

    fn ledger(&self) -> Ledger {
        state_ledger(Arc::new(OsVfs), &self.state)
    }
}

impl Fixture for GitArchive {
    fn open(&self) -> Box<dyn Storage> {
        open_archive(&self.path)
    }

    fn ledger(&self) -> Ledger {
        state_ledger(Arc::new(OsVfs), &self.scratch.path().join("state"))
    }
}

/// Opens an archive by the name of its format.
pub(crate) fn open_archive(path: &Path) -> Box<dyn Storage> {
    open_on(Arc::new(OsVfs), path)
}

/// Opens an archive on a file system.
pub(crate) fn open_on(vfs: Arc<dyn Vfs>, path: &Path) -> Box<dyn Storage> {
    let spec = MailboxSpec { format: FormatName::named("public-inbox"), path: path.to_owned() };
    open(vfs, &spec).unwrap()
}
