//! Times caches of real headers in every store: `stores DIR MAILDIR [STORE COMPRESSION]...`.
//!
//! The headers are read into memory first, so that only the cache is timed.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use barid_cache::{Builder, CacheDir, CacheOptions, Finish, Opened, Snapshot, StoreKind};
use barid_kv::Compression;
use barid_mailbox::{Location, MessageName, ScanReport, ScanStats, ScannedMessage, Sinks, Stamp};
use barid_state::{Identity, MessageKey};
use barid_types::{FlagSet, InternalDate, KeywordMask, KeywordTable, ModSeq, Uid, UidValidity};
use barid_vfs::{OsVfs, Vfs};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CHUNK: usize = 1024;
const THREADS: usize = 2;

struct Message {
    name: Vec<u8>,
    header: Vec<u8>,
    size: u64,
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("which folder?")?);
    let maildir = PathBuf::from(args.next().ok_or("which Maildir?")?);
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    vfs.create_dir_all(&dir, 0o700)?;
    let messages = messages(&*vfs, &maildir)?;
    println!("{} messages", messages.len());
    println!("{:24} {:>8} {:>8} {:>8} {:>8}", "", "populate", "read", "shuffled", "B/msg");
    while let Some(store) = args.next() {
        let compression = args.next().ok_or("which compression?")?;
        let options = CacheOptions {
            store: StoreKind::parse(&store)?,
            compression: Compression::parse(&compression)?,
        };
        run(&vfs, &dir, &messages, &options)?;
    }
    Ok(())
}

fn messages(vfs: &dyn Vfs, maildir: &Path) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    for sub in ["cur", "new"] {
        let dir = vfs.open_dir(&maildir.join(sub))?;
        let mut names = Vec::new();
        dir.list(&mut |name, _| names.push(name.to_vec()))?;
        names.sort_unstable();
        for name in names {
            let mut head = vec![0; 32 * 1024];
            let (metadata, len) = dir.read_head(&name, &mut head)?;
            head.truncate(len);
            let end = head.windows(2).position(|two| two == b"\n\n").map_or(len, |at| at + 2);
            head.truncate(end);
            head.shrink_to_fit();
            messages.push(Message { name, header: head, size: metadata.size });
        }
    }
    Ok(messages)
}

fn run(vfs: &Arc<dyn Vfs>, dir: &Path, messages: &[Message], options: &CacheOptions) -> Result<()> {
    let path = dir.join(barid_cache::file_name(1));
    CacheDir::new(Arc::clone(vfs), dir).clear()?;
    let identity = Identity { id: 1, path: dir.to_owned(), inode: 1 };
    let modseq = ModSeq::new(1).unwrap_or(ModSeq::MAX);
    let finish =
        Finish { identity: &identity, format: "maildir", modseq, keep: None, unchanged: None };
    let start = Instant::now();
    let builder = Builder::create(Arc::clone(vfs), &path, options)?;
    fill(&builder, messages);
    drop(builder.finish(&report(messages.len() as u32), &finish)?);
    let populate = start.elapsed();

    let start = Instant::now();
    let Opened::Fresh(snapshot) = Snapshot::open(Arc::clone(vfs), &path, 1)? else {
        return Err("no cache".into());
    };
    let mut rows: Vec<u32> = (0..snapshot.len()).collect();
    let mut bytes = 0;
    let mut count = |record: &barid_cache::Record<'_>| {
        bytes += record.fields.subject.map_or(0, <[u8]>::len);
    };
    snapshot.records(&rows, &mut |_, _, record| count(record))?;
    let read = start.elapsed();
    rows.sort_by_key(|row| u64::from(*row).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let start = Instant::now();
    snapshot.records(&rows, &mut |_, _, record| count(record))?;
    let shuffled = start.elapsed();
    snapshot.release();
    let entries = CacheDir::new(Arc::clone(vfs), dir).list()?;
    let disk: u64 = entries.iter().map(|entry| entry.bytes).sum();
    println!(
        "{:24} {:8.3} {:8.3} {:8.3} {:8.1}  bhc {:.1}",
        format!("{} {}", options.store, options.compression),
        populate.as_secs_f64(),
        read.as_secs_f64(),
        shuffled.as_secs_f64(),
        disk as f64 / messages.len() as f64,
        snapshot.file_len() as f64 / messages.len() as f64,
    );
    std::hint::black_box(bytes);
    Ok(())
}

fn fill(sinks: &dyn Sinks, messages: &[Message]) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for (chunk, some) in
                    messages.chunks(CHUNK).enumerate().skip(thread).step_by(THREADS)
                {
                    let mut sink = sinks.sink(chunk as u32);
                    for (index, message) in some.iter().enumerate() {
                        let number = (chunk * CHUNK + index) as u32;
                        sink.message(&scanned(number, message))
                            .expect("because the disk is not full");
                    }
                    sink.finish().expect("because the disk is not full");
                }
            });
        }
    });
}

fn scanned(number: u32, message: &Message) -> ScannedMessage<'_> {
    ScannedMessage {
        uid: Uid::new(number + 1),
        location: Location::from(MessageName { name: &message.name, in_new: false, mark: 0 }),
        header: &message.header,
        size: message.size,
        rfc822_size: None,
        internal_date: InternalDate {
            unix_seconds: 1_500_000_000 + i64::from(number) * 997,
            zone_minutes: 60,
        },
        flags: FlagSet::EMPTY,
        keywords: KeywordMask(0),
        key: MessageKey(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    }
}

fn report(count: u32) -> ScanReport {
    ScanReport {
        stamp: Stamp::default(),
        state: Vec::new(),
        uidvalidity: UidValidity::MIN,
        uidnext: Uid::new(count + 1).unwrap_or(Uid::MAX),
        keywords: KeywordTable::default(),
        reset: false,
        expunged: Vec::new(),
        changed: Vec::new(),
        new_uids: Vec::new(),
        tail_verified: false,
        size_bytes: u64::from(count) * 4000,
        defects: Vec::new(),
        stats: ScanStats::default(),
    }
}
