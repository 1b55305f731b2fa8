//! Reading messages of a file that others write.

use std::path::Path;

use barid_mailbox::{Error, ReadAs, Result, Storage};
use barid_vfs::{LockKind, LockMode, OpenOptions};

use super::support::{Cached, World};

const OLD: &[u8] = b"From a@b Sun Sep  9 01:46:40 2001\nSubject: one\n\nbody of the one\n\n\
    From a@b Sun Sep  9 01:46:40 2001\nSubject: two\n\nbody of the other\n\n";

/// Reads the first message at its known location, at once and in pieces.
fn read(world: &World, known: &Cached) -> Result<String> {
    let (at_once, in_pieces) = (read_at_once(world, known), read_in_pieces(world, known));
    let text = |result: &Result<String>| format!("{result:?}");
    assert_eq!(text(&at_once), text(&in_pieces));
    at_once
}

fn read_in_pieces(world: &World, known: &Cached) -> Result<String> {
    let (mailbox, location) = (world.mailbox(), known.seen[0].location());
    let mut message = mailbox.open_message(&location, &known.report.stamp)?;
    let mut bytes = vec![0; message.len() as usize];
    let len = message.read_at(&mut bytes, 0)?;
    let text = &bytes[message.separator_len() as usize..len];
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn read_at_once(world: &World, known: &Cached) -> Result<String> {
    let (mut buffer, location) = (Vec::new(), known.seen[0].location());
    let stamp = &known.report.stamp;
    let header_len = world.mailbox().read_known(&location, ReadAs::Message, stamp, &mut buffer)?;
    assert_eq!(header_len, known.seen[0].header.len());
    Ok(String::from_utf8_lossy(&buffer).into_owned())
}

fn is_gone(result: &Result<String>) -> bool {
    matches!(result, Err(Error::MessageGone { .. }))
}

#[test]
fn what_is_being_moved_is_not_read() {
    let world = World::new(OLD);
    let known = world.scan();
    let whole = "Subject: one\n\nbody of the one\n";
    assert_eq!(read(&world, &known).unwrap(), whole);

    // The end of the message is overwritten already, its beginning is not.
    let writer = world.vfs.open(&world.path, OpenOptions::WRITE).unwrap();
    assert!(writer.try_lock(LockKind::Fcntl, LockMode::Exclusive).unwrap());
    let at = OLD.windows(4).position(|bytes| bytes == b"the ").unwrap() as u64;
    writer.write_all_at(b"From", at).unwrap();
    let result = read(&world, &known);
    assert!(matches!(result, Err(Error::Locked { .. })), "{result:?}");

    // The writer is killed: its journal shows an unfinished change.
    let journal = Path::new("/mail/.box.barid-journal");
    world.vfs.open(journal, OpenOptions::create(0o600)).unwrap();
    writer.unlock(LockKind::Fcntl).unwrap();
    assert!(is_gone(&read(&world, &known)));
    world.vfs.remove_file(journal).unwrap();

    writer.write_all_at(b"the ", at).unwrap();
    assert_eq!(read(&world, &known).unwrap(), whole);
    world.append(b"From a@b Sun Sep  9 01:46:40 2001\nSubject: three\n\n\n");
    assert_eq!(read(&world, &known).unwrap(), whole, "what was only appended to");

    // Fields that are not part of a message's key have grown in the header.
    let grown = String::from_utf8_lossy(OLD).replace("one\n\n", "one\nX-UID: 17\n\n");
    world.write(grown.as_bytes());
    assert!(is_gone(&read(&world, &known)));
    // And the other way round, so that the known length covers bytes of the next message.
    let known = world.scan();
    world.write(OLD);
    assert!(is_gone(&read(&world, &known)));
    world.write(b"From a@b");
    assert!(is_gone(&read(&world, &known)));
}
