//! Random mailboxes and random changes of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{MboxLock, MboxOptions, Variant, WritingOptions};
use barid_mailbox::{ChangeSet, FlagChange, FlagChanges};
use barid_types::{Flag, FlagSet, Keyword, Uid};
use barid_vfs::{Host as _, MemVfs, OpenOptions, Vfs};
use fastrand::Rng;
use jiff::tz::TimeZone;

use super::file;
use super::mailbox::{self, Cached, DIR, PATH, STATE, Spec};
use super::subject::{Barid, Subject};

/// Initial style of the headers that mailboxes own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// No such headers.
    None,
    /// As Dovecot writes them.
    Dovecot,
    /// As c-client writes them, with X-IMAPbase in the first message.
    CClient,
    /// As c-client writes them, with a pseudo message.
    Pseudo,
}

/// Kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One flag of one message.
    OneFlag,
    /// Flags and keywords of some messages.
    Flags,
    /// Some messages are expunged.
    Expunge,
    /// Everything is written.
    Everything,
    /// Messages are only appended.
    Append,
    /// Any combination of these.
    Mixed,
}

/// A mailbox on a disk, and a change to be made to it.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) seed: u64,
    pub(super) spec: Spec,
    pub(super) style: Style,
    pub(super) kind: Kind,
    pub(super) disk: MemVfs,
    /// The file before the change.
    pub(super) old: Vec<u8>,
    pub(super) cached: Cached,
    /// The bytes of each message that no change may alter.
    pub(super) texts: Vec<Vec<u8>>,
    pub(super) changes: ChangeSet,
    pub(super) appends: Vec<Vec<u8>>,
    /// A message that was delivered after the scan.
    pub(super) delivered: Option<Vec<u8>>,
    /// `true` if nothing can be created in the folder of the mailbox.
    pub(super) folder_is_closed: bool,
    pub(super) pending_through: Option<u64>,
}

/// Size of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// Some KB, so that many crash points can be visited.
    Small,
    /// Up to some hundred KB.
    Large,
    /// Slightly more than a MB, most of which stays in place or is removed by a collapse.
    Huge,
}

const KEYWORDS: [&str; 6] = ["$Forwarded", "todo", "NonJunk", "a", "Work", "$Label1"];

impl Scenario {
    /// Makes the scenario of a seed.
    pub(super) fn new(seed: u64, size: Size) -> Self {
        let mut rng = Rng::with_seed(seed);
        let variant = Variant::ALL[rng.usize(..5)];
        let style = match rng.u32(..10) {
            0..4 => Style::None,
            4..6 => Style::Dovecot,
            6..8 => Style::CClient,
            _ => Style::Pseudo,
        };
        let kind = match rng.u32(..20) {
            0..3 => Kind::OneFlag,
            3..8 => Kind::Flags,
            8..12 => Kind::Expunge,
            12..15 => Kind::Everything,
            15 => Kind::Append,
            _ => Kind::Mixed,
        };
        let disk = disk(&file::random(&mut rng, variant, style, size));
        let spec = Spec { variant, options: options(&mut rng) };
        let mut scenario = Self::of(disk, spec);
        (scenario.seed, scenario.style, scenario.kind) = (seed, style, kind);
        scenario.change(&mut rng);
        if rng.u32(..3) == 0 {
            scenario = scenario.written(&mut rng);
        }
        scenario.quirks(&mut rng);
        if size == Size::Huge {
            scenario.expunge_a_large_one(&mut rng);
        }
        scenario
    }

    /// Makes a scenario from a disk; nothing is to be changed.
    pub(super) fn of(disk: MemVfs, spec: Spec) -> Self {
        disk.sleep(Duration::from_secs(3));
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let old = vfs.read(Path::new(PATH), mailbox::SIZE_MAX).unwrap();
        let cached = mailbox::scan(&vfs, &spec, STATE).unwrap();
        let texts = mailbox::texts(&vfs, &spec, &cached).unwrap();
        disk.sleep(Duration::from_secs(3));
        Self {
            seed: 0,
            spec,
            style: Style::None,
            kind: Kind::Append,
            disk,
            old,
            cached,
            texts,
            changes: ChangeSet::default(),
            appends: Vec::new(),
            delivered: None,
            folder_is_closed: false,
            pending_through: None,
        }
    }

    /// Makes the scenario of a mailbox that barid has already written, and of another change.
    fn written(self, rng: &mut Rng) -> Self {
        let vfs: Arc<dyn Vfs> = Arc::new(self.disk.clone());
        Barid.change(&vfs, &self).unwrap();
        let next = Self::of(self.disk, self.spec);
        let mut next = Self { seed: self.seed, style: self.style, kind: self.kind, ..next };
        next.change(rng);
        next
    }

    /// Chooses a random change.
    pub(super) fn change(&mut self, rng: &mut Rng) {
        let uids = self.cached.report.new_uids.clone();
        let mut changes = ChangeSet::default();
        self.appends = Vec::new();
        let some = |rng: &mut Rng, of: u32| {
            let picked: Vec<Uid> = uids.iter().copied().filter(|_| rng.u32(..of) == 0).collect();
            picked
        };
        match self.kind {
            Kind::OneFlag if !uids.is_empty() => {
                let flag = if rng.bool() { Flag::Seen } else { Flag::Flagged };
                let change = FlagChange { add: FlagSet::EMPTY.with(flag), ..FlagChange::default() };
                changes.flags.push((uids[rng.usize(..uids.len())], change));
            }
            Kind::OneFlag | Kind::Append => {}
            Kind::Flags => {
                let of = rng.u32(1..5);
                let picked = some(rng, of);
                changes.flags = flag_changes(rng, &picked);
            }
            Kind::Expunge => changes.expunge = expunges(rng, &uids),
            Kind::Everything => {
                let picked = some(rng, 2);
                changes.flags = flag_changes(rng, &picked);
                changes.write_uids = true;
            }
            Kind::Mixed => {
                let picked = some(rng, 3);
                changes.flags = flag_changes(rng, &picked);
                changes.expunge = expunges(rng, &uids);
                changes.write_uids = rng.bool();
                changes.drop_recent = rng.bool();
            }
        }
        changes.drop_recent |= rng.u32(..6) == 0;
        changes.flags.retain(|uid| !changes.expunge.contains(&uid));
        if self.kind == Kind::Append || rng.u32(..6) == 0 {
            for number in 0..rng.usize(1..4) {
                let len = rng.usize(..3000);
                self.appends.push(file::text(
                    rng,
                    &format!("appended-{}-{number}", self.seed),
                    len,
                    "\n",
                ));
            }
        }
        self.changes = changes;
        self.pending_through = (rng.u32(..4) == 0).then(|| rng.u64(1..1000));
    }

    /// Delivers a message as another program does, unknown to the change.
    fn deliver(&mut self, rng: &mut Rng) {
        let text = file::text(rng, "delivered-before", 200, "\n");
        let text = String::from_utf8_lossy(&text).replace(">From", "from");
        let mut mail = String::new();
        file::put(&mut mail, self.spec.variant, 7, &text, "\n");
        let lead = if self.spec.variant == Variant::Mmdf { "" } else { "\n" };
        let file = self.disk.open(Path::new(PATH), OpenOptions::WRITE).unwrap();
        let mail = format!("{lead}{mail}");
        file.write_all_at(mail.as_bytes(), self.old.len() as u64).unwrap();
        self.old.extend_from_slice(mail.as_bytes());
        self.delivered = Some(text.into_bytes());
    }

    /// Expunges a large message with much text after it, so that a collapse is worthwhile.
    fn expunge_a_large_one(&mut self, rng: &mut Rng) {
        let len = |seen: &mailbox::Seen| seen.location.extent().map_or(0, |extent| extent.body_len);
        let large = self.cached.seen.iter().position(|seen| len(seen) >= file::LARGE_LEN);
        self.changes.expunge = large.map(|at| self.cached.seen[at].uid).into_iter().collect();
        self.changes.write_uids = false;
        if rng.bool() {
            self.changes.flags = FlagChanges::default();
        }
        self.changes.flags.retain(|uid| !self.changes.expunge.contains(&uid));
        self.disk.set_collapse(true);
    }

    fn quirks(&mut self, rng: &mut Rng) {
        match rng.u32(..16) {
            0 | 1 => self.disk.set_xattrs(false),
            2 => {
                self.folder_is_closed = true;
                self.disk.set_mode(Path::new(DIR), 0o500).unwrap();
            }
            3 | 4 if !self.old.is_empty() && self.old.ends_with(b"\n") => self.deliver(rng),
            _ => {}
        }
        self.disk.set_collapse(rng.u32(..3) > 0);
        self.disk.set_syncs_names(self.seed.is_multiple_of(2));
    }

    /// Returns a description from which the scenario can be repeated.
    pub(super) fn name(&self) -> String {
        let Self { seed, spec, style, kind, .. } = self;
        let (len, appends) = (self.old.len(), self.appends.len());
        let variant = spec.variant;
        format!("seed {seed} ({variant:?}, {style:?}, {kind:?}, {len} bytes, {appends} appended)")
    }
}

fn flag_changes(rng: &mut Rng, uids: &[Uid]) -> FlagChanges {
    let set = |rng: &mut Rng| FlagSet::from_bits(rng.u8(..32));
    let keywords = |rng: &mut Rng, max: usize| -> Vec<Keyword> {
        let names = (0..rng.usize(..=max)).map(|_| KEYWORDS[rng.usize(..KEYWORDS.len())]);
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter_map(Keyword::new).collect()
    };
    let change = |rng: &mut Rng| {
        let add = set(rng);
        let remove = FlagSet::from_bits(set(rng).bits() & !add.bits());
        let add_keywords = keywords(rng, 4);
        let mut remove_keywords = keywords(rng, 2);
        remove_keywords.retain(|name| !add_keywords.contains(name));
        FlagChange { add, remove, add_keywords, remove_keywords }
    };
    // Neighbours with the same change are stored as one.
    let mut last = change(rng);
    let mut next = |rng: &mut Rng| {
        if rng.u32(..3) > 0 {
            last = change(rng);
        }
        last.clone()
    };
    uids.iter().map(|uid| (*uid, next(rng))).collect()
}

fn expunges(rng: &mut Rng, uids: &[Uid]) -> Vec<Uid> {
    match rng.u32(..6) {
        0 => uids.iter().copied().take(1).collect(),
        1 => uids.last().copied().into_iter().collect(),
        2 if uids.len() > 2 => {
            let first = rng.usize(..uids.len());
            let end = rng.usize(first..uids.len());
            uids[first..end].to_vec()
        }
        3 => uids.iter().copied().filter(|_| rng.u32(..8) > 0).collect(),
        _ => uids.iter().copied().filter(|_| rng.u32(..4) == 0).collect(),
    }
}

fn options(rng: &mut Rng) -> MboxOptions {
    let len = |rng: &mut Rng, min: u32, max: u32| 1u64 << rng.u32(min..max);
    let writing = WritingOptions {
        unit_len: len(rng, 7, 14),
        stay_len: len(rng, 4, 12),
        window_len: len(rng, 9, 15),
        direct_len_min: len(rng, 7, 13),
        direct_len_max: len(rng, 10, 15),
        buffer_len: len(rng, 8, 13) as usize,
        image_len: len(rng, 9, 14),
    };
    MboxOptions {
        zone: Some(TimeZone::UTC),
        lock_timeout: Duration::from_millis(10),
        write_locks: MboxLock::ALL.to_vec(),
        writing: if rng.u32(..8) == 0 { WritingOptions::default() } else { writing },
        ..MboxOptions::default()
    }
}

fn disk(bytes: &[u8]) -> MemVfs {
    let disk = MemVfs::new();
    for folder in [DIR, STATE, "/tmp"] {
        disk.create_dir(Path::new(folder), 0o700).unwrap();
    }
    let file = disk.open(Path::new(PATH), OpenOptions::create(0o600)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    disk
}
