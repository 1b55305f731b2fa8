//! Reading many messages: the same results as reading each alone, with few calls.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use barid_formats::{CreateOptions, FormatName, MailboxSpec, MboxOptions, create, open_with};
use barid_mailbox::{
    EmptyKnown, Error, Extent, Location, MessageName, NewMessage, ReadAs, ScanContext, Stamp,
    Storage, SyncContext,
};
use barid_vfs::{CallKind, CountingVfs, MemVfs, OpenOptions, Vfs};

use crate::support::{Cached, in_stretches, new_ledger};

/// A mailbox of some hundred messages.
struct World {
    disk: CountingVfs<MemVfs>,
    vfs: Arc<dyn Vfs>,
    mailbox: Box<dyn Storage>,
    known: Cached,
    format: FormatName,
}

impl World {
    fn new(format: FormatName, texts: &[String]) -> Self {
        let disk = CountingVfs::new(MemVfs::new());
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        for folder in ["/mail", "/state", "/tmp"] {
            vfs.create_dir(Path::new(folder), 0o700).unwrap();
        }
        let path = Path::new("/mail/box");
        create(&vfs, path, format.format(), &CreateOptions::default()).unwrap();
        let spec = MailboxSpec { format: Some(format), path: path.to_owned() };
        let options =
            MboxOptions { lock_timeout: Duration::from_millis(10), ..MboxOptions::default() };
        let mailbox = open_with(Arc::clone(&vfs), &spec, options).unwrap();
        vfs.sleep(Duration::from_secs(3));
        let message = |text| NewMessage { bytes: text, ..NewMessage::default() };
        let messages: Vec<_> = texts.iter().map(|text| message(text.as_bytes())).collect();
        let known = scan(&*mailbox);
        let mut context = SyncContext::new(&known);
        context.state_dir = Some(Path::new("/state"));
        mailbox.sync(&Default::default(), &messages, &mut context).unwrap();
        vfs.sleep(Duration::from_secs(3));
        let known = scan(&*mailbox);
        assert_eq!(known.seen.len(), texts.len(), "{format:?}");
        Self { disk, vfs, mailbox, known, format }
    }

    fn locations(&self) -> Vec<Location<'static>> {
        self.known.seen.iter().map(|seen| seen.location).collect()
    }

    fn stamp(&self) -> &Stamp {
        &self.known.report.stamp
    }

    /// Reads in several orders, together and alone; returns the number of messages that could be
    /// read.
    fn check(&self, what: &str) -> usize {
        let all = self.locations();
        let orders: [Vec<Location<'_>>; 4] = [
            all.clone(),
            all.iter().rev().copied().collect(),
            all.iter().step_by(3).copied().collect(),
            all.iter().flat_map(|location| [*location, *location]).collect(),
        ];
        let mut buffer = b"whatever was in it".to_vec();
        for read_as in [ReadAs::Message, ReadAs::Quoted, ReadAs::Stored] {
            for order in &orders {
                let read = self.mailbox.read_many(order, read_as, self.stamp(), &mut buffer);
                assert_eq!(read.len(), order.len());
                for (at, (read, location)) in read.iter().zip(order).enumerate() {
                    let mut expected = Vec::new();
                    let header_len =
                        self.mailbox.read_known(location, read_as, self.stamp(), &mut expected);
                    let at = format!("{:?} {read_as:?} {what} {at}", self.format);
                    match (read, header_len) {
                        (Ok(read), Ok(header_len)) => {
                            assert_eq!(&buffer[read.range.clone()], expected, "{at}");
                            assert_eq!(read.header_len, header_len, "{at}");
                        }
                        (Err(found), Err(expected)) => {
                            assert_eq!(found.to_string(), expected.to_string(), "{at}");
                        }
                        (found, expected) => panic!("{at}: {found:?}, alone {expected:?}"),
                    }
                }
            }
        }
        let read = self.mailbox.read_many(&all, ReadAs::Quoted, self.stamp(), &mut buffer);
        for message in read.iter().flatten() {
            let text = &buffer[message.range.clone()];
            let mut unquoted = text.to_vec();
            self.mailbox.unquote(&mut unquoted, message.header_len);
            assert_eq!(self.mailbox.is_quoted(text), unquoted != text, "{:?}", self.format);
        }
        read.iter().flatten().count()
    }

    /// Writes into the file that contains message `at`.
    fn write(&self, at: usize, skip: u64, bytes: &[u8]) {
        let Some(Extent { offset, .. }) = self.known.seen[at].location.extent() else { panic!() };
        let (path, offset) = match self.format.name() {
            "mix" => (format!("/mail/box/.mix{:08x}", offset >> 32), offset & u64::from(u32::MAX)),
            _ => ("/mail/box".to_owned(), offset),
        };
        let file = self.vfs.open(Path::new(&path), OpenOptions::WRITE).unwrap();
        file.write_all_at(bytes, offset + skip).unwrap();
    }
}

fn scan(mailbox: &dyn Storage) -> Cached {
    let mut ledger = new_ledger();
    let mut context = ScanContext {
        ledger: &mut ledger,
        read_only: true,
        full_check: false,
        will_rescan: false,
        threads: 1,
        progress: None,
    };
    Cached::scan(mailbox, &EmptyKnown::default(), &mut context).unwrap()
}

fn texts() -> Vec<String> {
    let mut rng = fastrand::Rng::with_seed(11);
    let lines = ["a line of the text\r\n", ">From me\r\n", "\r\n", ">>From >\r\n", "x\r\n"];
    let text = |n: usize| {
        let count = match n {
            77 => 40_000,
            _ => rng.usize(..300),
        };
        let body: String = (0..count).map(|_| *rng.choice(&lines).unwrap()).collect();
        format!("Subject: {n}\r\nX-Number: {n}\r\n\r\n{body}.\r\n")
    };
    (0..300).map(text).collect()
}

#[test]
fn messages_are_read_together_as_they_are_alone() {
    for format in in_stretches() {
        let world = World::new(format, &texts());
        assert_eq!(world.check("as they are"), 300);
        let before = world.disk.counts();
        let locations = world.locations();
        let mut buffer = Vec::new();
        world.mailbox.read_many(&locations, ReadAs::Quoted, world.stamp(), &mut buffer);
        let calls = world.disk.counts().since(&before);
        let (opened, read) = (calls.of(CallKind::Open), calls.of(CallKind::Read));
        assert!(opened <= 4 && read <= 16, "{format:?}: {opened} opened, {read} read");

        // Invalid separators, in a file whose times show the change, except for mix.
        for at in [0, 5, 150, 151, 299] {
            world.write(at, 0, b"no separator, nor a line of an mbx");
        }
        let left = world.check("broken");
        assert_eq!(left, 295, "{format:?}");
    }
}

#[test]
fn places_that_are_none_are_refused() {
    for format in in_stretches() {
        let world = World::new(format, &texts()[..3]);
        let Some(Extent { offset, separator_len, header_len, body_len }) =
            world.known.seen[1].location.extent()
        else {
            panic!()
        };
        let span = |offset, separator_len, header_len, body_len| {
            Location::from(Extent { offset, separator_len, header_len, body_len })
        };
        let bad = [
            span(offset, separator_len, header_len, u64::MAX),
            span(u64::MAX, separator_len, header_len, body_len),
            span(offset, u32::MAX, u32::MAX, 1 << 40),
            span(1 << 40, separator_len, header_len, body_len),
            span(offset, 0, 0, 0),
            span(offset + 1, separator_len, header_len, body_len),
            Location::from(MessageName { name: b"x", in_new: false, mark: 0 }),
        ];
        let mut buffer = Vec::new();
        let all: Vec<_> = bad.into_iter().chain(world.locations()).collect();
        let read = world.mailbox.read_many(&all, ReadAs::Message, world.stamp(), &mut buffer);
        let (bad, good) = read.split_at(bad.len());
        let is_refused = |read: &Result<_, Error>| read.is_err();
        assert!(bad.iter().all(is_refused), "{format:?}: {bad:?}");
        assert_eq!(good.iter().flatten().count(), 3, "{format:?}: {good:?}");
        assert!(buffer.capacity() < 1 << 20, "{format:?}");
    }
}
