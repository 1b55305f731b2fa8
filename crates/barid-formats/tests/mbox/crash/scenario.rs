//! Random mailboxes and random changes of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{ChangeSet, FlagChange, MboxLock, MboxOptions, Variant};
use barid_types::{Flag, FlagSet, Keyword, Uid};
use barid_vfs::{MemVfs, OpenOptions, Vfs};
use fastrand::Rng;
use jiff::tz::TimeZone;

use super::file;
use super::mailbox::{self, Cached, DIR, PATH, STATE, Spec};

/// How the headers that mailboxes own look at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// There are none.
    None,
    /// As Dovecot writes them.
    Dovecot,
    /// As c-client does, the first message carrying X-IMAPbase.
    CClient,
    /// As c-client does, with a pseudo message.
    Pseudo,
}

/// What the change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One flag of one message.
    OneFlag,
    /// Flags and keywords of some.
    Flags,
    /// Some expunged.
    Expunge,
    /// Everything written.
    Everything,
    /// Only appended.
    Append,
    /// Any of it.
    Mixed,
}

/// A mailbox on a disk, and a change to be made of it.
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
    /// The same bytes of each message.
    pub(super) texts: Vec<Vec<u8>>,
    pub(super) changes: ChangeSet,
    pub(super) appends: Vec<Vec<u8>>,
    pub(super) pending_through: Option<u64>,
}

/// How large a scenario is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// Some KB, so that many crash points can be visited.
    Small,
    /// Up to some hundred KB.
    Large,
}

const KEYWORDS: [&str; 6] = ["$Forwarded", "todo", "NonJunk", "a", "Work", "$Label1"];

impl Scenario {
    /// The scenario of a seed.
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
        let spec = Spec { variant, options: options() };
        let mut scenario = Self::of(disk, spec);
        (scenario.seed, scenario.style, scenario.kind) = (seed, style, kind);
        scenario.change(&mut rng);
        scenario.quirks(&mut rng);
        scenario
    }

    /// What is on a disk; nothing is to be changed.
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
            pending_through: None,
        }
    }

    /// Draws what is to be changed.
    pub(super) fn change(&mut self, rng: &mut Rng) {
        let uids = self.cached.uids().to_vec();
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
        changes.flags.retain(|(uid, _)| !changes.expunge.contains(uid));
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

    fn quirks(&mut self, rng: &mut Rng) {
        if rng.u32(..8) == 0 {
            self.disk.set_xattrs(false);
        }
        self.disk.set_collapse(rng.u32(..3) > 0);
    }

    /// What makes it repeatable, for a message.
    pub(super) fn name(&self) -> String {
        let Self { seed, spec, style, kind, .. } = self;
        format!("seed {seed} ({:?}, {style:?}, {kind:?}, {} bytes)", spec.variant, self.old.len())
    }
}

fn flag_changes(rng: &mut Rng, uids: &[Uid]) -> Vec<(Uid, FlagChange)> {
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
    uids.iter().map(|uid| (*uid, change(rng))).collect()
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

fn options() -> MboxOptions {
    MboxOptions {
        zone: Some(TimeZone::UTC),
        lock_timeout: Duration::from_millis(10),
        write_locks: MboxLock::ALL.to_vec(),
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
