//! Conversions of a source that changes meanwhile, and conversions that miss some of its messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use barid::convert::{ConvertEvent, ConvertOptions, ConvertReport, convert};
use barid::{ChangeRequest, Error, Mailbox, MailboxSpec, NewMessage};
use barid_vfs::{OpenOptions as FileOptions, Vfs};

use crate::arena::{Arena, expunge, found, now};

/// Bytes of a message; the readers, who are a few blocks ahead, treat each as a block of its own.
const LARGE: usize = 1 << 20;

/// Creates a Maildir with messages of some size.
fn source(count: usize, size: usize) -> Arena {
    let arena = Arena::in_memory("maildir", 5);
    let text = format!("Subject: x\n\n{}\n", "y".repeat(size));
    let message = NewMessage { bytes: text.as_bytes(), ..NewMessage::default() };
    let appends = vec![message; count];
    let request = ChangeRequest { appends: &appends, ..ChangeRequest::default() };
    arena.open().change(&request, &now()).unwrap();
    arena
}

/// Converts to an mbx; calls `act` once the first message was taken.
fn convert_with(
    arena: &Arena,
    act: impl Fn(&dyn Vfs) + Send + Sync + 'static,
) -> barid::Result<ConvertReport> {
    let (vfs, once) = (Arc::clone(&arena.vfs), AtomicBool::new(true));
    let options = ConvertOptions {
        proof: true,
        progress: Some(Arc::new(move |_| {
            if once.swap(false, Ordering::Relaxed) {
                act(&*vfs);
            }
        })),
        ..ConvertOptions::default()
    };
    let target = MailboxSpec::parse("mbx:/new");
    convert(&arena.vfs, (&arena.spec, &target), &arena.options(), &options, &mut |_| {})
}

/// Gives all messages new UIDs.
fn renumber(vfs: &dyn Vfs) {
    let path = Path::new("/box/dovecot-uidlist");
    vfs.remove_file(path).unwrap();
    let file = vfs.open(path, FileOptions::create_new(0o600)).unwrap();
    file.write_all_at(b"3 V1234567 N1\n", 0).unwrap();
}

/// Removes the message that was delivered last.
fn remove_last(vfs: &dyn Vfs) {
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in ["/box/cur", "/box/new"] {
        let dir = vfs.open_dir(Path::new(folder)).unwrap();
        dir.list(&mut |name, _| {
            all.push(Path::new(folder).join(String::from_utf8_lossy(name).into_owned()));
        })
        .unwrap();
    }
    all.sort_by_key(|path| path.file_name().map(ToOwned::to_owned));
    vfs.remove_file(all.last().unwrap()).unwrap();
}

#[test]
fn a_source_that_is_renumbered_is_not_converted() {
    let check = |count, size, act: fn(&dyn Vfs)| {
        let arena = source(count, size);
        let result = convert_with(&arena, act);
        assert!(matches!(result, Err(Error::Renumbered { .. })), "{result:?}");
        // The note is still there.
        let again = convert_with(&arena, |_| {});
        assert!(matches!(again, Err(Error::OtherConversion { .. })), "{again:?}");
    };
    // Nothing has to be searched for.
    check(5, 1, renumber);
    check(12, LARGE, |vfs| {
        renumber(vfs);
        remove_last(vfs);
    });
}

#[test]
fn a_conversion_without_what_is_gone_is_not_whole() {
    let arena = source(12, LARGE);
    let converted = convert_with(&arena, remove_last).unwrap();
    assert_eq!((converted.appended, converted.gone.len()), (11, 1));
    assert!(!converted.is_whole());
    let again = convert_with(&arena, |_| {}).unwrap();
    assert_eq!((again.found, again.appended, again.gone.len()), (11, 0, 0));
    assert!(again.is_whole());
}

#[test]
fn what_is_missing_before_others_can_only_be_stored_anew() {
    let arena = source(6, 1);
    let target = MailboxSpec::parse("mbx:/new");
    let run = || {
        let options = ConvertOptions { keeps_note: true, ..ConvertOptions::default() };
        let mut asides = 0;
        let mut tell = |event: ConvertEvent<'_>| {
            asides += u32::from(matches!(event, ConvertEvent::PutAside(_)));
        };
        let specs = (&arena.spec, &target);
        let result = convert(&arena.vfs, specs, &arena.options(), &options, &mut tell);
        let converted = result.unwrap();
        assert!(converted.is_whole());
        (converted.found, converted.appended, asides)
    };
    let open = || Mailbox::open_in(Arc::clone(&arena.vfs), &target, &arena.options()).unwrap();
    assert_eq!(run(), (0, 6, 0));
    assert_eq!(run(), (6, 0, 0));
    open().change(&expunge(&[3]), &now()).unwrap();
    assert_eq!(run(), (0, 6, 1));
    assert_eq!(found(&open()), found(&arena.open()));
}
