//! Checks of reading.

use barid_mailbox::{
    ChangeSet, Error, Extent, Known, Location, MessageName, MessageRest, NewMessage, ReadAs,
    ReadMessage, Result, TakeRest, WHOLE_LEN_MAX,
};

use super::{expunging, filled, texts};
use crate::fixture::Fixture;
use crate::mirror::MirrorRow;
use crate::session::StorageHandle;
use crate::texts::canonical;

const FORMS: [ReadAs; 3] = [ReadAs::Message, ReadAs::Quoted, ReadAs::Stored];

pub(super) fn all_ways_of_reading_agree(fixture: &dyn Fixture) {
    filled(fixture, 40);
    let session = StorageHandle::scanned(fixture);
    let (storage, rows) = (&session.storage, session.known.rows());
    let stamp = session.known.stamp().unwrap();
    let locations: Vec<_> = rows.iter().rev().map(|row| row.location.get()).collect();
    let mut buffer = b"old content".to_vec();
    for read_as in FORMS {
        let many = storage.read_many(&locations, read_as, &stamp, &mut buffer);
        for (row, result) in rows.iter().zip(many.into_iter().rev()) {
            let ReadMessage { range, header_len } = result.unwrap();
            let mut bytes = b"before".to_vec();
            let alone = storage.read(&row.location.get(), read_as, &mut bytes).unwrap();
            assert_eq!(&bytes[..6], b"before", "reading appends to the buffer");
            let known = session.read(row, read_as).unwrap();
            assert_eq!(known, (bytes.split_off(6), alone), "{read_as:?}, UID {}", row.uid);
            assert_eq!(known.0, buffer[range], "{read_as:?}, UID {}", row.uid);
            assert_eq!(alone, header_len, "{read_as:?}, UID {}", row.uid);
        }
    }
    for (row, text) in rows.iter().zip(texts(1, 40)) {
        let (message, _) = session.read(row, ReadAs::Message).unwrap();
        assert_eq!(canonical(&message), canonical(&text), "UID {}", row.uid);
        let (mut quoted, header_len) = session.read(row, ReadAs::Quoted).unwrap();
        assert_eq!(storage.is_quoted(&quoted), quoted != message, "UID {}", row.uid);
        storage.unquote(&mut quoted, header_len);
        assert_eq!(quoted, message, "UID {}", row.uid);
    }
}

/// Reads a message in pieces of `piece_len` bytes.
fn read_in_pieces(
    session: &StorageHandle<'_>,
    row: &MirrorRow,
    piece_len: usize,
) -> Result<Vec<u8>> {
    let stamp = session.known.stamp().unwrap();
    let location = row.location.get();
    let mut message = session.storage.open_message(&location, &stamp)?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; piece_len];
    loop {
        let len = message.read_at(&mut piece, bytes.len() as u64)?;
        bytes.extend_from_slice(&piece[..len]);
        if len < piece_len {
            assert_eq!(bytes.len() as u64, message.len());
            return Ok(bytes);
        }
    }
}

pub(super) fn a_message_is_read_in_pieces(fixture: &dyn Fixture) {
    let session = filled(fixture, 10);
    for row in session.known.rows() {
        let (stored, _) = session.read(row, ReadAs::Stored).unwrap();
        for piece_len in [7, 4_096, 1 << 20] {
            let pieces = read_in_pieces(&session, row, piece_len).unwrap();
            assert_eq!(pieces, stored, "UID {} by {piece_len} bytes", row.uid);
        }
    }
}

/// Checks that a location that may be outdated gives the message, or nothing that passes for it.
pub(super) fn check_outdated(session: &StorageHandle<'_>, row: &MirrorRow, text: &[u8]) {
    let key_of = |bytes: &[u8]| barid_message::header_key(bytes);
    match session.read(row, ReadAs::Quoted) {
        Err(Error::MessageGone { .. }) => {}
        Err(error) => panic!("UID {}: {error}", row.uid),
        Ok((bytes, header_len)) => {
            let names_messages = session.storage.names_messages();
            let passes = names_messages || key_of(&bytes[..header_len]) == row.key.0;
            let (message, _) = session.read(row, ReadAs::Message).unwrap();
            let is_same = canonical(&message) == text;
            assert!(is_same || !passes, "another message was read as UID {}", row.uid);
        }
    }
}

pub(super) fn an_expunged_message_is_never_another(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 12);
    for _ in 0..4 {
        let outdated = StorageHandle::scanned(fixture);
        let contents = outdated.contents();
        let uids = session.uids();
        session.sync(&expunging(&[uids[0], uids[uids.len() - 1]]), &[]);
        session.sync(&ChangeSet::default(), &super::messages(&texts(100, 1)));
        for row in outdated.known.rows() {
            check_outdated(&outdated, row, &contents[&row.uid].text);
        }
        if session.storage.names_messages() {
            let gone = outdated.read(&outdated.known.rows()[0], ReadAs::Message);
            assert!(matches!(gone, Err(Error::MessageGone { .. })), "{gone:?}");
            let gone = read_in_pieces(&outdated, &outdated.known.rows()[0], 99);
            assert!(matches!(gone, Err(Error::MessageGone { .. })), "{gone:?}");
        }
    }
}

pub(super) fn locations_of_nothing_are_refused(fixture: &dyn Fixture) {
    let session = filled(fixture, 3);
    let stamp = session.known.stamp().unwrap();
    let extent = |offset, body_len| {
        Location::from(Extent { offset, separator_len: 9, header_len: 99, body_len })
    };
    let name = |name| Location::from(MessageName { name, in_new: false, mark: 0 });
    let mut locations = vec![extent(0, 1), extent(u64::MAX, u64::MAX), extent(1 << 40, 7)];
    locations.extend([&b""[..], b".", b"..", b"../x", b"/", b"\xff", &[b'1'; 5_000]].map(name));
    let mut buffer = Vec::new();
    for read_as in FORMS {
        for result in session.storage.read_many(&locations, read_as, &stamp, &mut buffer) {
            assert!(result.is_err(), "{result:?}");
        }
    }
    for location in &locations {
        let opened = session.storage.open_message(location, &stamp);
        let read = opened.and_then(|mut message| message.read_at(&mut [0; 9], 0));
        assert!(read.is_err(), "{location:?}");
    }
}

/// A body of many equal lines.
#[derive(Debug)]
struct ManyLines(u64);

const LINE: &[u8] = b"a line of a large message, sixty-four bytes with its line end..\n";

impl MessageRest for ManyLines {
    fn size(&self) -> u64 {
        self.0 * LINE.len() as u64
    }

    fn read(&self, take: &mut TakeRest<'_>) -> Result<()> {
        (0..self.0).try_for_each(|_| take(LINE))
    }
}

pub(super) fn a_large_message_is_only_read_in_pieces(fixture: &dyn Fixture) {
    let mut session = filled(fixture, 1);
    let count = WHOLE_LEN_MAX / LINE.len() as u64 + 1;
    let rest = ManyLines(count);
    let large =
        NewMessage { bytes: b"Subject: large\n\n", rest: Some(&rest), ..NewMessage::default() };
    session.sync(&ChangeSet::default(), &[large]);
    let row = &session.known.rows()[1];
    for read_as in FORMS {
        let result = session.read(row, read_as);
        assert!(matches!(result, Err(Error::MessageTooLarge { .. })), "{read_as:?}");
    }
    let bytes = read_in_pieces(&session, row, 1 << 20).unwrap();
    let lines = bytes.split(|byte| *byte == b'\n');
    let line = &LINE[..LINE.len() - 1];
    let is_line = |read: &&[u8]| read.strip_suffix(b"\r").unwrap_or(read) == line;
    assert_eq!(lines.filter(is_line).count() as u64, count);
}
