//! Conversions: everything that both formats can store is preserved, an interrupted one continues,
//! and messages left out or lost properties are reported.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid::convert::{
    ConvertEvent, ConvertOptions, ConvertReport, Dedupe, Difference, Dropped, Proof, ProofSide,
    convert, copy,
};
use barid::{
    ChangeRequest, CreateOptions, Error, Flag, FlagSet, InternalDate, Keyword, KeywordLimit,
    Mailbox, MailboxSpec, NewMessage, NoteKind, OpenOptions, Status, Uid,
};
use barid_vfs::{MemVfs, Vfs};

use crate::arena::{Arena, expunge, format_named, found, keyword, memory, now, uid};

/// The formats of the ring, each converted to the next.
const RING: [&str; 7] = ["maildir", "mboxrd", "mbx", "mix", "mh", "mmdf", "maildir"];

/// A file system with a source, and a folder for targets.
pub(crate) struct Place {
    pub(crate) vfs: Arc<dyn Vfs>,
}

/// The events that were reported.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) dropped: Vec<Dropped>,
    pub(crate) proofs: Vec<Proof>,
    pub(crate) asides: usize,
}

/// Creates some messages with every property that a mailbox can store; a few are gone.
pub(crate) fn source(disk: &MemVfs, count: usize) -> Mailbox {
    let mut arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "maildir", 11);
    let mut mailbox = arena.open();
    let extra = (0..count).map(|at| {
        let flags = Flag::ALL.iter().enumerate().filter(|(bit, _)| at >> bit & 1 == 1);
        let flags: FlagSet = flags.map(|(_, flag)| *flag).filter(|f| *f != Flag::Recent).collect();
        let keywords = [(3, "Junk"), (5, "$Forwarded")].into_iter();
        (flags, keywords.filter(|(by, _)| at % by == 0).map(|(_, name)| keyword(name)).collect())
    });
    arena.append(&mut mailbox, extra.collect());
    mailbox.change(&expunge(&[2, 3, count as u32 - 1]), &now()).unwrap();
    mailbox.refresh().unwrap();
    mailbox
}

impl Place {
    pub(crate) fn new(vfs: Arc<dyn Vfs>) -> Self {
        Self { vfs }
    }

    pub(crate) fn open_options(&self) -> OpenOptions {
        let open = OpenOptions::new(Some("/cache".into()), "/state".into());
        OpenOptions { threads: 2, ..open }
    }

    pub(crate) fn open(&self, spec: &str) -> Mailbox {
        let spec = MailboxSpec::parse(spec);
        Mailbox::open_in(Arc::clone(&self.vfs), &spec, &self.open_options()).unwrap()
    }

    pub(crate) fn convert(
        &self,
        (source, target): (&str, &str),
        options: &ConvertOptions,
    ) -> (barid::Result<ConvertReport>, Told) {
        let specs = [source, target].map(MailboxSpec::parse);
        let mut told = Told::default();
        let open = self.open_options();
        let result = convert(&self.vfs, (&specs[0], &specs[1]), &open, options, &mut |event| {
            told.take(&event);
        });
        (result, told)
    }

    /// Converts with proof; only the expected properties may be lost.
    pub(crate) fn convert_whole(&self, source: &str, target: &str) -> (ConvertReport, Told) {
        let (result, told) = self.convert((source, target), &proving());
        let converted = result.unwrap();
        let proven = converted.proven.unwrap();
        assert!(converted.is_whole(), "{source} {target}: {converted:?} {:?}", told.differing());
        assert_eq!(proven.same as usize, told.proofs.len());
        assert_eq!(converted.losses.uids, 0, "{source} {target}");
        assert!(!converted.losses.uidvalidity, "{source} {target}");
        (converted, told)
    }
}

impl Told {
    pub(crate) fn take(&mut self, event: &ConvertEvent<'_>) {
        match event {
            ConvertEvent::Dropped(dropped) => self.dropped.push((*dropped).clone()),
            ConvertEvent::Proof(proof) => self.proofs.push((*proof).clone()),
            ConvertEvent::PutAside(_) => self.asides += 1,
            _ => {}
        }
    }

    fn differing(&self) -> Vec<&Proof> {
        self.proofs.iter().filter(|proof| !proof.differences.is_empty()).collect()
    }

    pub(crate) fn before(&self) -> Vec<ProofSide> {
        self.proofs.iter().map(|proof| proof.before.clone().unwrap()).map(without_zone).collect()
    }

    fn after(&self) -> Vec<ProofSide> {
        self.proofs.iter().map(|proof| proof.after.clone().unwrap()).map(without_zone).collect()
    }
}

/// Returns a side without its zone and with sorted keywords: only some formats keep time zones, and
/// the order of keywords differs.
fn without_zone(side: ProofSide) -> ProofSide {
    let mut keywords = side.keywords;
    keywords.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    let internal_date = InternalDate { zone_minutes: 0, ..side.internal_date };
    ProofSide { keywords, internal_date, ..side }
}

pub(crate) fn proving() -> ConvertOptions {
    ConvertOptions { proof: true, ..ConvertOptions::default() }
}

fn numbering(status: &Status) -> (u32, u32) {
    (status.uidvalidity.get(), status.messages)
}

#[test]
fn around_the_ring_nothing_is_lost() {
    let disk = memory();
    let first = source(&disk, 70);
    let place = Place::new(Arc::new(disk));
    let mut told: Vec<Told> = Vec::new();
    for (at, hop) in RING.windows(2).enumerate() {
        let from = if at == 0 { "/box".to_owned() } else { format!("{}:/ring{at}", hop[0]) };
        let to = format!("{}:/ring{}", hop[1], at + 1);
        let (converted, one) = place.convert_whole(&from, &to);
        assert_eq!(converted.appended, u64::from(first.len()), "{to}");
        assert!(converted.losses.keywords.is_empty() && converted.losses.quoted == 0, "{to}");
        let target = place.open(&to);
        assert_eq!(numbering(&target.status()), numbering(&first.status()), "{to}");
        assert_eq!(found(&target), found(&first), "{to}");
        if let Some(last) = told.last() {
            assert_eq!(last.after(), one.before(), "{to}");
        }
        told.push(one);
    }
    assert_eq!(told[0].before(), told[5].after());
    assert_eq!(told[0].proofs.len(), 67);
}

#[test]
fn a_conversion_that_is_stopped_goes_on() {
    for format in &RING[1..] {
        let disk = memory();
        let first = source(&disk, 30);
        let place = Place::new(Arc::new(disk));
        let to = format!("{format}:/new");
        let mut stops = 0;
        for after in [0, 1, 9, 20] {
            let stop: Arc<AtomicBool> = Arc::default();
            let flag = Arc::clone(&stop);
            let options = ConvertOptions {
                batch_len: 1,
                stop: Some(stop),
                progress: Some(Arc::new(move |progress| {
                    if progress.done > after {
                        flag.store(true, Ordering::Relaxed);
                    }
                })),
                ..proving()
            };
            let (result, told) = place.convert(("/box", &to), &options);
            assert!(matches!(result, Err(Error::ConversionStopped { .. })), "{format} {result:?}");
            assert_eq!(told.asides, 0, "{format} {after}");
            stops += 1;
        }
        assert_eq!(stops, 4);
        let there = u64::from(place.open(&to).len());
        assert!(there >= 19, "{format}: {there}");
        let (converted, told) = place.convert_whole("/box", &to);
        assert_eq!((converted.found, told.asides), (there, 0), "{format}");
        assert_eq!(converted.found + converted.appended, 27, "{format}");
        assert_eq!(found(&place.open(&to)), found(&first), "{format}");
        let (again, _) = place.convert(("/box", &to), &proving());
        assert!(matches!(again, Err(Error::TargetNotEmpty { .. })), "{format}");
    }
}

#[test]
fn what_changed_in_the_source_meanwhile_is_taken_over() {
    let disk = memory();
    let mut first = source(&disk, 12);
    let place = Place::new(Arc::new(disk));
    let stop = || ConvertOptions {
        batch_len: 1,
        stop: Some(Arc::new(AtomicBool::new(true))),
        ..proving()
    };
    for _ in 0..1 {
        place.convert(("/box", "mix:/new"), &stop()).0.unwrap_err();
    }
    let change = barid::FlagChange {
        add: [Flag::Flagged].into_iter().collect(),
        add_keywords: vec![keyword("later")],
        ..barid::FlagChange::default()
    };
    first.change(&crate::arena::flag(&[1, 4], &change), &now()).unwrap();
    place.convert_whole("/box", "mix:/new");
    assert_eq!(found(&place.open("mix:/new")), found(&first));
}

#[test]
fn what_is_there_already_is_left_alone() {
    let disk = memory();
    source(&disk, 8);
    let place = Place::new(Arc::new(disk));
    let stopped = ConvertOptions {
        batch_len: 1,
        stop: Some(Arc::new(AtomicBool::new(true))),
        ..ConvertOptions::default()
    };
    place.convert(("/box", "mbx:/new"), &stopped).0.unwrap_err();
    let other = ConvertOptions { dedupe: Some(Dedupe::Content), ..proving() };
    let (result, _) = place.convert(("/box", "mbx:/new"), &other);
    assert!(matches!(result, Err(Error::OtherConversion { .. })), "{result:?}");
    place.convert_whole("/box", "mbx:/new");
    let (result, _) = place.convert(("/new", "maildir:/box"), &proving());
    assert!(matches!(result, Err(Error::TargetNotEmpty { .. })), "{result:?}");
    assert_eq!(place.open("/box").len(), 5);
}

#[test]
fn messages_like_others_are_left_out() {
    let disk = memory();
    let arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "mboxrd", 3);
    let texts = [
        "Message-ID: <a@b>\n\none\n",
        "Message-ID: <a@b>\n\ntwo\n",
        "Subject: x\n\none\n",
        "Message-ID:\t<a@b>\n\none\n",
        "Message-ID: <a@b>\n\none\n",
    ];
    let new = |text: &&'static str| NewMessage { bytes: text.as_bytes(), ..NewMessage::default() };
    let appends: Vec<NewMessage<'_>> = texts.iter().map(new).collect();
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    arena.open().change(&request, &now()).unwrap();
    let place = Place::new(Arc::new(disk));
    let check = |dedupe, to: &str, expected: &[(u32, u32, bool)], kept: &[u32]| {
        let options = ConvertOptions { dedupe: Some(dedupe), ..proving() };
        let (result, told) = place.convert(("mboxrd:/box", to), &options);
        let converted = result.unwrap();
        assert!(converted.is_whole());
        assert_eq!(converted.dropped as usize, expected.len());
        let dropped = told.dropped.iter();
        let dropped: Vec<_> =
            dropped.map(|it| (it.uid.get(), it.like.get(), it.same_content)).collect();
        assert_eq!(dropped, expected);
        let uids: Vec<u32> = found(&place.open(to)).iter().map(|message| message.uid).collect();
        assert_eq!(uids, kept);
    };
    let by_id = [(2, 1, false), (4, 1, false), (5, 1, true)];
    check(Dedupe::MessageId, "mix:/ids", &by_id, &[1, 3]);
    check(Dedupe::Content, "mix:/texts", &[(5, 1, true)], &[1, 2, 3, 4]);
}

#[test]
fn a_copy_leaves_out_what_the_target_has() {
    let texts = [
        "Message-ID: <a@b>\n\none\n",
        "Subject: without an id\n\none\n",
        "Message-ID: <c@d>\n\nFrom here\n>From there\n",
        "Subject: without an id\n\ntwo\n\nFrom here\n",
    ];
    let new = |text: &&'static str| NewMessage { bytes: text.as_bytes(), ..NewMessage::default() };
    let appends: Vec<NewMessage<'_>> = texts.iter().map(new).collect();
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    let formats = ["maildir", "mh", "mix", "mbx", "mboxo"].map(format_named);
    for dedupe in [Dedupe::MessageId, Dedupe::Content] {
        for format in formats.into_iter().chain(["mboxrd", "mmdf"].map(format_named)) {
            let disk = memory();
            let arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "maildir", 3);
            let mut first = arena.open();
            first.change(&request, &now()).unwrap();
            let place = Place::new(Arc::new(disk));
            let (to, state) = (Path::new("/to"), Path::new("/state"));
            barid::create(&place.vfs, to, format, &CreateOptions::default(), state).unwrap();
            let spec = format!("{}:/to", format.name());
            let options = ConvertOptions { dedupe: Some(dedupe), ..ConvertOptions::default() };
            let all: Vec<_> = (1..=4).map(uid).collect();
            let mut copied = |uids: &[Uid], options: &ConvertOptions| {
                let mut target = place.open(&spec);
                copy(&mut first, uids, &mut target, options, &mut |_| {}).unwrap();
                target.len()
            };
            // The target already has duplicates.
            assert_eq!(copied(&all[..2], &ConvertOptions::default()), 2);
            assert_eq!(copied(&all[..1], &ConvertOptions::default()), 3);
            for _ in 0..2 {
                assert_eq!(copied(&all, &options), 5, "{dedupe:?} {}", format.name());
            }
        }
    }
}

#[test]
fn what_a_format_cannot_hold_is_told() {
    let disk = memory();
    let arena = Arena::new(Arc::new(disk.clone()), Path::new("/"), "maildir", 3);
    let bytes = b"Subject: x\n\nFrom here\n";
    let long = Keyword::new(&"k".repeat(60)).unwrap();
    let keywords = vec![keyword("Junk"), long.clone(), keyword("unseen")];
    let internal_date = Some(InternalDate { unix_seconds: 1_600_000_000, zone_minutes: 120 });
    let message = NewMessage { bytes, keywords, internal_date, ..NewMessage::default() };
    let request = ChangeRequest { appends: &[message], ..ChangeRequest::default() };
    arena.open().change(&request, &now()).unwrap();
    let place = Place::new(Arc::new(disk));
    let refused = |to: &str| {
        let (converted, told) = place.convert_whole("/box", to);
        assert_eq!(told.proofs[0].before.as_ref().unwrap().keywords.len(), 3, "{to}");
        converted.losses.keywords
    };
    assert_eq!(refused("maildir:/a"), []);
    assert_eq!(refused("mix:/b"), [(long, KeywordLimit::Length(50), 1)]);
    assert_eq!(refused("mh:/c"), [(keyword("unseen"), KeywordLimit::Name, 1)]);
    let (result, told) = place.convert(("/a", "mboxo:/d"), &proving());
    let converted = result.unwrap();
    assert_eq!((converted.losses.quoted, converted.is_whole()), (1, false));
    assert_eq!(told.proofs[0].differences, [Difference::Content]);
}

#[test]
fn messages_are_copied_with_new_uids() {
    let disk = memory();
    let mut first = source(&disk, 9);
    let place = Place::new(Arc::new(disk));
    let options = CreateOptions::default();
    barid::create(&place.vfs, Path::new("/to"), format_named("mbx"), &options, Path::new("/state"))
        .unwrap();
    let mut target = place.open("/to");
    for round in 0..2 {
        let mut told = Told::default();
        let uids = [uid(4), uid(5), uid(77), uid(9)];
        let copied =
            copy(&mut first, &uids, &mut target, &proving(), &mut |event| told.take(&event));
        let copied = copied.unwrap();
        assert!(copied.is_whole(), "{copied:?}");
        assert_eq!(copied.gone, [uid(77)]);
        let next = 3 * round;
        let pairs = [(4, next + 1), (5, next + 2), (9, next + 3)];
        assert_eq!(copied.uids, pairs.map(|(before, after)| (uid(before), uid(after))));
        assert_eq!(told.proofs.len(), 3);
    }
    assert_eq!(target.len(), 6);
}

#[test]
fn messages_that_are_being_written_are_waited_for() {
    // In an MH folder the other program may waste a UID.
    for (spec, names, uidnext) in
        [("maildir:/box", ["new/1.h", "new/2.h"], 2), ("mh:/box", ["1", "2"], 3)]
    {
        let disk = memory();
        for folder in ["/box", "/box/new", "/box/cur", "/box/tmp"] {
            disk.create_dir(Path::new(folder), 0o700).unwrap();
        }
        for (name, text) in names.into_iter().zip(["Subject: half\n", "Subject: whole\n\nbody\n"]) {
            let path = Path::new("/box").join(name);
            let file = disk.open(&path, barid_vfs::OpenOptions::create_new(0o600)).unwrap();
            file.write_all_at(text.as_bytes(), 0).unwrap();
        }
        let place = Place::new(Arc::new(disk));
        let mut mailbox = place.open(spec);
        let notes = mailbox.notes().iter();
        assert_eq!(notes.filter(|note| note.kind == NoteKind::Arriving).count(), 1, "{spec}");
        assert_eq!((mailbox.len(), mailbox.status().uidnext.get()), (1, uidnext), "{spec}");
        let (result, _) = place.convert((spec, "mboxrd:/target"), &ConvertOptions::default());
        let converted = result.unwrap();
        assert!(converted.is_whole() && converted.messages == 2, "{spec}: {converted:?}");
        assert!(mailbox.wait_for_arrivals().unwrap() && mailbox.len() == 2, "{spec}");
    }
}
