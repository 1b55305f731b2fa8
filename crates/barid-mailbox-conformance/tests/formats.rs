//! Every format of files passes the suite.
//!
//! The environment variable `BARID_FORMAT` names the one format to be checked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{CreateOptions, FormatName, MailboxSpec, create, open};
use barid_mailbox::Storage;
use barid_mailbox_conformance::{Backend, Fixture, check_all, state_ledger};
use barid_state::Ledger;
use barid_vfs::{CrashVfs, Host as _, MemVfs, OpenOptions, Vfs};

const PATH: &str = "/mail/box";
const STATE_DIR: &str = "/state";
/// Crash points of one change that are visited.
const CRASH_POINTS: usize = 40;
/// Disks that each of them may leave.
const SEEDS: u64 = 3;

/// Line before and after a message of an MMDF.
const MMDF_SEPARATOR: &[u8] = b"\x01\x01\x01\x01\n";

/// A format on a file system in memory.
struct FormatBackend(FormatName);

/// A mailbox on a disk in memory.
struct FileFixture {
    format: FormatName,
    disk: MemVfs,
}

impl Backend for FormatBackend {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn create(&self) -> Box<dyn Fixture> {
        let fixture = FileFixture { format: self.0, disk: MemVfs::new() };
        let vfs = fixture.vfs();
        for folder in ["/mail", STATE_DIR, "/tmp"] {
            vfs.create_dir(Path::new(folder), 0o700).unwrap();
        }
        let options = CreateOptions::default();
        create(&vfs, Path::new(PATH), self.0.format(), &options).unwrap();
        Box::new(fixture)
    }
}

impl FileFixture {
    fn vfs(&self) -> Arc<dyn Vfs> {
        Arc::new(self.disk.clone())
    }

    fn on(&self, disk: MemVfs) -> Self {
        Self { format: self.format, disk }
    }

    /// Writes a file in a folder of the mailbox.
    fn write_at(&self, folder: &str, name: &str, text: &[u8]) {
        let path = Path::new(PATH).join(folder).join(name);
        let file = self.disk.open(&path, OpenOptions::create_new(0o600)).unwrap();
        file.write_all_at(text, 0).unwrap();
    }

    /// Returns the number of the next message of an MH folder.
    fn next_number(&self) -> u32 {
        let (dir, mut last) = (self.disk.open_dir(Path::new(PATH)).unwrap(), 0);
        let number = |name: &[u8]| std::str::from_utf8(name).ok()?.parse::<u32>().ok();
        dir.list(&mut |name, _| last = last.max(number(name).unwrap_or(0))).unwrap();
        last + 1
    }

    /// Appends to the file.
    fn append(&self, bytes: &[u8]) {
        let file = self.disk.open(Path::new(PATH), OpenOptions::WRITE).unwrap();
        file.write_all_at(bytes, file.metadata().unwrap().size).unwrap();
    }
}

impl Fixture for FileFixture {
    fn open(&self) -> Box<dyn Storage> {
        let spec = MailboxSpec { format: Some(self.format), path: PATH.into() };
        open(self.vfs(), &spec).unwrap()
    }

    fn ledger(&self) -> Ledger {
        state_ledger(self.vfs(), Path::new(STATE_DIR))
    }

    fn state_dir(&self) -> Option<&Path> {
        Some(Path::new(STATE_DIR))
    }

    fn pass_time(&self) {
        self.disk.sleep(Duration::from_secs(3));
    }

    fn deliver(&self, text: &[u8]) -> bool {
        let date = b"From someone@example.org Thu Jan  1 00:00:00 2026\n";
        match self.format.name() {
            "maildir" => self.write_at("new", &self.disk.now().unix_nanos.to_string(), text),
            "mh" => self.write_at("", &self.next_number().to_string(), text),
            "mmdf" => self.append(&[MMDF_SEPARATOR, text, MMDF_SEPARATOR].concat()),
            _ if self.format.format().has_senders => self.append(&[date, text, b"\n"].concat()),
            _ => return false,
        }
        true
    }

    fn crash(
        &self,
        change: &dyn Fn(&dyn Fixture),
        visit: &mut dyn FnMut(&dyn Fixture, bool),
    ) -> bool {
        let world = CrashVfs::new(&self.disk);
        change(&self.on(world.vfs()));
        let last = world.points();
        let step = last.div_ceil(CRASH_POINTS).max(1);
        for point in (0..last).step_by(step).chain([last]) {
            for seed in (0..SEEDS).map(|seed| seed * 7 + point as u64 % 5) {
                visit(&self.on(world.crash_at(point, seed)), point == last);
            }
        }
        true
    }
}

fn check_formats(is_checked: impl Fn(FormatName) -> bool) {
    let only = std::env::var("BARID_FORMAT").ok();
    let is_wanted = |format: &FormatName| only.as_ref().is_none_or(|only| format.name() == only);
    let formats = FormatName::all().filter(|format| is_checked(*format)).filter(is_wanted);
    formats.for_each(|format| check_all(&FormatBackend(format)));
}

#[test]
fn formats_with_a_file_for_each_message_pass_every_check() {
    check_formats(|format| format.format().has_message_files());
}

#[test]
fn formats_with_messages_in_stretches_pass_every_check() {
    check_formats(|format| !format.format().has_message_files());
}
