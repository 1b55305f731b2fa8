//! Files that must survive: journals, ledger, pending changes, kept messages, notes.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use barid::convert::{ConvertOptions, convert, move_messages};
use barid::{Mailbox, MailboxSpec, Uid, check};

use super::mailbox::{MBOX, MBX, MH, MIX, seed};
use crate::world::World;

/// An mbox whose messages are being moved, and mailboxes that are being changed in place.
pub(crate) static MBOX_JOURNAL: LazyLock<World> = LazyLock::new(|| halfway(&MBOX));
pub(crate) static MBX_JOURNAL: LazyLock<World> = LazyLock::new(|| halfway(&MBX));
pub(crate) static MIX_JOURNAL: LazyLock<World> = LazyLock::new(|| halfway(&MIX));
/// A mailbox that was repaired.
pub(crate) static REPAIRED: LazyLock<World> = LazyLock::new(repaired);
/// A mailbox that was converted, with the note of that.
pub(crate) static CONVERTED: LazyLock<World> = LazyLock::new(converted);
/// A mailbox from which a move was begun and stopped, with the note of that.
pub(crate) static MOVING: LazyLock<World> = LazyLock::new(moving);

fn halfway(world: &World) -> World {
    world.interrupted().expect("because a change of several messages has a journal")
}

fn repaired() -> World {
    let path = MIX.path(".mixindex");
    let bytes = MIX.bytes(&path);
    let world = MIX.with(&path, &bytes[..bytes.len() - 30]);
    let report = check::repair(&world.vfs(), world.spec(), &world.options());
    report.expect("because an index can be made again");
    world
}

fn converted() -> World {
    let world = MBOX.with(&PathBuf::from("/mail/other"), b"");
    convert_to(&world, "maildir:/mail/target").expect("because the disk does not fail");
    world
}

fn convert_to(world: &World, target: &str) -> barid::Result<()> {
    let options = ConvertOptions { keeps_note: true, ..ConvertOptions::default() };
    let target = MailboxSpec::parse(target);
    convert(
        &Arc::clone(&world.vfs()),
        (world.spec(), &target),
        &world.options(),
        &options,
        &mut |_| {},
    )
    .map(drop)
}

fn moving() -> World {
    let world = MBOX.with(&PathBuf::from("/mail/other"), b"");
    convert_to(&world, "maildir:/mail/target").expect("because the disk does not fail");
    move_to(&world, true).expect_err("because it is stopped at once");
    world
}

fn move_to(world: &World, is_stopped: bool) -> barid::Result<()> {
    let open = |spec: &MailboxSpec| Mailbox::open_in(world.vfs(), spec, &world.options());
    let mut source = open(world.spec())?;
    let mut target = open(&MailboxSpec::parse("/mail/target"))?;
    let uids: Vec<Uid> = source.uids()?.into_iter().filter_map(Uid::new).collect();
    let stop = Some(Arc::new(AtomicBool::new(is_stopped)));
    let options = ConvertOptions { stop, ..ConvertOptions::default() };
    move_messages(&mut source, &uids, &mut target, &options, &mut |_| {}).map(drop)
}

/// The manifest of a repair, which is listed and undone.
pub(crate) fn manifest(bytes: &[u8]) {
    let path = REPAIRED.path("/manifest");
    let world = REPAIRED.with(&path, bytes);
    drop(check::kept_repairs(&world.vfs(), world.spec(), &world.options()));
    drop(check::undo_repair(&world.vfs(), world.spec(), &world.options()));
    world.exercise();
    drop(check::discard_repairs(&world.vfs(), world.spec(), &world.options()));
}

/// The note of a conversion, which is continued.
pub(crate) fn note(bytes: &[u8]) {
    let path = CONVERTED.path("/convert-");
    let world = CONVERTED.with(&path, bytes);
    drop(convert_to(&world, "maildir:/mail/target"));
    drop(convert_to(&world, "maildir:/mail/target"));
}

/// The note of a move, which is continued.
pub(crate) fn move_note(bytes: &[u8]) {
    let path = MOVING.path("/move-");
    let world = MOVING.with(&path, bytes);
    drop(move_to(&world, false));
    drop(move_to(&world, false));
}

/// Ledgers: of a mailbox that has one, and of earlier versions.
pub(crate) fn ledger_seeds() -> Vec<Vec<u8>> {
    vec![
        seed(&MH, ".ledger"),
        include_bytes!("../../../barid-state/tests/fixtures/ledger-v1.bin").to_vec(),
        include_bytes!("../../../barid-state/tests/fixtures/ledger-v2.bin").to_vec(),
        include_bytes!("../../../barid-state/tests/fixtures/ledger-v3.bin").to_vec(),
    ]
}

/// Journals of pending changes.
pub(crate) fn pending_seeds() -> Vec<Vec<u8>> {
    vec![
        seed(&MBOX, ".pending"),
        include_bytes!("../../../barid-state/tests/fixtures/pending-v1.bin").to_vec(),
        include_bytes!("../../../barid-state/tests/fixtures/pending-v2.bin").to_vec(),
    ]
}

/// Kept messages.
pub(crate) fn expunged_seeds() -> Vec<Vec<u8>> {
    vec![
        seed(&MBOX, ".kept/"),
        include_bytes!("../../../barid-state/tests/fixtures/expunged-v2.bin").to_vec(),
        include_bytes!("../../../barid-state/tests/fixtures/expunged-v3.bin").to_vec(),
    ]
}

/// Journals of changes of an mbox.
pub(crate) fn mbox_journals() -> Vec<Vec<u8>> {
    vec![seed(&MBOX_JOURNAL, "journal")]
}

/// Journals of changes in place.
pub(crate) fn redo_journals() -> Vec<Vec<u8>> {
    vec![seed(&MIX_JOURNAL, "journal"), seed(&MBX_JOURNAL, "journal")]
}
